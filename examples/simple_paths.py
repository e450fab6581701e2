"""Find paths that visit no vertex twice, with a budget for searches that take long.

A courier leaves a depot, drives two roads a day, and delivers where a day ends. A walk may drive around the village behind
the depot to make the number of roads even; a simple path may not visit a place twice. A proof that the streets of the town
contain no such path would exceed the budget, so this depot is set aside. The answers of the other depots remain exact.
Prints:

    walks:  east → grocer, north → baker
    simple: north → baker
    east set aside after 51 nodes; north → baker is still there
    road to the village closed; set aside: []
"""

import rpq

STREETS = 4  # the width and height of the grid
DELIVERY = "leaves/(road/road)*/delivers"
window = rpq.Window(size=100, slide=10)


def both_ways(pairs: list[tuple[str, str]]) -> list[tuple[str, str, str, int]]:
    return [(*ends, "road", 2) for pair in pairs for ends in (pair, pair[::-1])]


grid = [(f"{x}-{y}", f"{x + 1}-{y}") for x in range(STREETS - 1) for y in range(STREETS)]
grid += [(f"{x}-{y}", f"{x}-{y + 1}") for x in range(STREETS) for y in range(STREETS - 1)]
village = [("0-0", "gate"), ("gate", "church"), ("church", "inn"), ("inn", "gate")]  # a cycle of three roads
stream = [
    *[("north", "mill", "leaves", 1), ("mill", "ford", "road", 2), ("ford", "farm", "road", 2)],
    ("farm", "baker", "delivers", 3),
    *[("east", "0-0", "leaves", 1), *both_ways(grid + village)],
    (f"{STREETS - 1}-{STREETS - 2}", "grocer", "delivers", 3),  # an odd number of streets from 0-0
]


def answers(engine: rpq.Engine) -> str:
    return ", ".join(sorted(f"{source} → {target}" for source, target in engine.answers()))


def engine_of(**options: object) -> rpq.Engine:
    return rpq.Engine(rpq.Query(DELIVERY, window=window, **options))


walks = engine_of()
walks.push_rows(stream)
print(f"walks:  {answers(walks)}")

simple = engine_of(paths="simple")  # the default budget is ten million nodes
simple.push_rows(stream)
print(f"simple: {answers(simple)}")

# Without on_budget="set_aside", the push would apply all tuples and then raise a ConflictBudgetError.
hurried = engine_of(paths="simple", simple_budget=50, on_budget="set_aside")
for record in hurried.push_rows(stream).set_aside:
    print(f"{record.root} set aside after {record.size:,} nodes; {answers(hurried)} is still there")

hurried.push_rows([("0-0", "gate", "road", 4, "-"), ("gate", "0-0", "road", 4, "-")])  # no conflicts are left
hurried.restore_root("east")
print(f"road to the village closed; set aside: {hurried.set_aside()}")

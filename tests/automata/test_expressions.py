"""The syntax of expressions: their trees, and the errors for texts that are no expressions.

semantics.md S12
"""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpq import automata
from rpq.automata import (
    Alternation,
    Concatenation,
    Expression,
    ExpressionError,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    Symbol,
    parse,
)
from tests.automata.test_expression_words import expressions
from tests.twins import examples

a, b, c = Label("a"), Label("b"), Label("c")


def many(inner: Expression) -> Repetition:
    return Repetition(inner, 0, None)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", a),
        ("a/b/c", Concatenation((a, b, c))),
        ("(a/b)/c", Concatenation((a, b, c))),
        ("a|b|c", Alternation((a, b, c))),
        ("a|b/c", Alternation((a, Concatenation((b, c))))),
        ("a/b*", Concatenation((a, many(b)))),
        ("a{3}", Repetition(a, 3, 3)),
        ("a{2,5}", Repetition(a, 2, 5)),
        ("a{,5}", Repetition(a, 0, 5)),
        ("a{0,}", many(a)),
        ("a{ 002 , 5 }", Repetition(a, 2, 5)),
        ("(a*)+", Repetition(many(a), 1, None)),
        ("^a", Inverse(a)),
        ("^a*", Inverse(many(a))),
        ("^(a/b)", Inverse(Concatenation((a, b)))),
        ("^(a|b){2}", Inverse(Repetition(Alternation((a, b)), 2, 2))),
        ("!a", NegatedSet((Symbol("a"),))),
        ("!a*", many(NegatedSet((Symbol("a"),)))),
        ("!(a|^b)", NegatedSet((Symbol("a"), Symbol("b", True)))),
        ("!(^b|a|a)", NegatedSet((Symbol("a"), Symbol("b", True)))),
        ("!()", NegatedSet(())),
        ("^!a", Inverse(NegatedSet((Symbol("a"),)))),
        ("\t( a\n|  b )\r\n", Alternation((a, b))),
    ],
)
def test_tree(text: str, tree: Expression) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("<knows>", "knows"),
        ('"knows"', "knows"),
        ("'knows'", "knows"),
        ("17", "17"),
        ("is-a", "is-a"),
        ("a--b..c", "a--b..c"),
        (":knows", ":knows"),
        ("हिन्दी", "हिन्दी"),  # vowel signs are marks, not letters
        ("e\N{COMBINING ACUTE ACCENT}t", "e\N{COMBINING ACUTE ACCENT}t"),  # not normalised
        ("<http://example.org/a#b?c=(d)*>", "http://example.org/a#b?c=(d)*"),
        (r"<a\u0041>", r"a\u0041"),  # no escapes in an IRI
        ('"a b/c*"', "a b/c*"),
        (r'"\"\\\'\t\n\r\b\f"', "\"\\'\t\n\r\b\f"),
        (r'"\u00e9\U0001F600"', "é😀"),
        ('""', ""),
    ],
)
def test_name(text: str, label: str) -> None:
    assert parse(text) == Label(label)
    assert parse(str(parse(text))) == Label(label)
    assert parse(f"!(^{text}|{text})") == NegatedSet((Symbol(label, True), Symbol(label)))


def test_text_is_canonical() -> None:
    assert str(parse("((<a> / ('b'))|( ^(c{0,1})) )+/!(^y|x)")) == "(a/b|^c?)+/!(x|^y)"


@given(expressions(leaves=8))
@settings(deadline=None)
def test_text_of_a_tree_parses_to_it(tree: Expression) -> None:
    assert parse(str(tree)) == tree


@given(expressions(leaves=3, labels=st.text(max_size=6)))
@settings(deadline=None)
def test_any_label_can_be_written(tree: Expression) -> None:
    assert parse(str(tree)) == tree


@given(expressions(leaves=6), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_blanks_parentheses_and_notation_do_not_matter(tree: Expression, random) -> None:  # type: ignore[no-untyped-def]
    def noisy(node: Expression) -> str:
        def blank() -> str:
            return random.choice(["", "", " ", "\n ", "\t"])

        def name(label: str) -> str:
            return random.choice(["{}", "<{}>", '"{}"', "'{}'"]).format(label)

        match node:
            case Label(label):
                text = name(label)
            case NegatedSet(members):
                inside = f"{blank()}|{blank()}".join(
                    ("^" + blank()) * member.inverse + name(member.label) for member in members
                )
                text = f"!{blank()}({blank()}{inside}{blank()})"
            case Inverse(inner):
                text = f"(^{blank()}{noisy(inner)})"
            case Concatenation(parts):
                text = "(" + f"{blank()}/{blank()}".join(map(noisy, parts)) + ")"
            case Alternation(parts):
                text = "(" + f"{blank()}|{blank()}".join(map(noisy, parts)) + ")"
            case Repetition(inner, minimum, maximum):
                text = f"({noisy(inner)}{blank()}{{{minimum},{blank()}{'' if maximum is None else maximum}}})"
        return text if random.random() < 0.7 else f"({blank()}{text}{blank()})"

    assert parse(noisy(tree)) == tree


OPERAND = "a name, '(', '!' or '^'"
AFTER = "'/', '|', a quantifier (* + ? {n,m}) or the end"
ERRORS = [
    ("", 1, "empty", OPERAND),
    ("a/", 3, "too early", OPERAND),
    ("a||b", 3, "unexpected '|'", OPERAND),
    ("*a", 1, "unexpected '*'", OPERAND),
    ("a b", 3, "unexpected b", AFTER),
    ("-a", 1, "unexpected '-'", OPERAND),
    ("http://x", 7, "unexpected '/'", OPERAND),
    ("a)", 2, "unexpected ')'", AFTER),
    ("a/((b)*|c", 10, "column 3 is still open", "'/', '|', a quantifier (* + ? {n,m}) or ')'"),
    ("()", 2, "unexpected ')'", OPERAND),
    ("a**", 3, "second quantifier", "parentheses"),
    ("a* b", 4, "unexpected b", "'/', '|' or the end"),
    ("^^a", 2, "unexpected '^'", "a name, '(' or '!'"),
    ("a{3,2}", 5, "maximum 2 is below the minimum 3", "3 or more"),
    ("a{,}", 4, "unexpected '}'", "a number"),
    ("a{x}", 3, "unexpected x", "a number or ','"),
    ("a{2,", 5, "too early", "a number or '}'"),
    ("a{2;3}", 4, "unexpected ';'", "',' or '}'"),
    ("!", 2, "too early", "a name, '^' or '(' after '!'"),
    ("!(a/b)", 4, "unexpected '/'", "'|' or ')' in the negated set"),
    ("!(a|)", 5, "unexpected ')'", "a name or '^' in the negated set"),
    ("!((a))", 3, "unexpected '('", "a name, '^' or ')' in the negated set"),
    ("a/<b", 3, "'<' is not closed", "'>'"),
    ("<a b>", 3, "a blank inside", "'>'"),
    ("a/'b", 3, "is not closed", "another '"),
    ('"a\rb"', 3, "a carriage return inside a quoted name", '" before it, or \\r for it'),
    ('"a\nb"', 3, "the line ends inside a quoted name", '" before the end of the line, or \\n for it'),
    (r"'b\q'", 3, r"unknown escape \q", r"\n"),
    (r"'b\u12'", 3, r"incomplete escape \u", "4 hexadecimal digits"),
    (r"'\uD800'", 2, "no character", "Unicode"),
    ("a/b{0,1000000}", 4, "1,000,000 steps", "smaller"),
    ("a{99999999999999999999}", 3, "too large", "smaller"),
    ("((a{100}){100}){100}", 10, "10,000 steps", "smaller"),
    ("(a{0}){100000000}", 7, "steps", "smaller"),
]


@pytest.mark.parametrize(("text", "column", "message", "expected"), ERRORS)
def test_error(text: str, column: int, message: str, expected: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    error = caught.value
    assert error.column == column
    assert message in error.message
    assert expected in error.expected
    assert isinstance(error, ValueError)


def test_error_points_to_the_column() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("名前/\t|b")
    assert str(caught.value).splitlines() == [
        "column 5: unexpected '|'; expected a name, '(', '!' or '^'",
        "  名前/ |b",
        "        ^",  # wide characters take two cells
    ]


def test_error_in_a_long_expression_shows_the_surroundings() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("a/" * 500 + "|" + "b" * 500)
    first, shown, pointer = str(caught.value).splitlines()
    assert first.startswith("column 1001:")
    assert shown[pointer.index("^")] == "|"
    assert len(shown) < 130


def test_error_can_be_pickled() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("a/")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.column) == (str(caught.value), 3)


@given(st.text(alphabet="ab/|*+?^!(){}<>\"'\\,0 12", max_size=12))
@examples(500)
def test_text_is_an_expression_or_an_error_inside_it(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError as error:
        assert 1 <= error.column <= len(text) + 1
    else:
        assert parse(str(tree)) == tree


def test_ten_thousand_parentheses() -> None:
    assert parse("(" * 10_000 + "a" + ")" * 10_000) == a
    with pytest.raises(ExpressionError, match=r"column 20003: .*column 1 is still open"):
        parse("(" * 10_001 + "a" + ")" * 10_000)


@pytest.mark.parametrize(("opening", "closing"), [("^(", ")"), ("(b/(c|", "))")])
def test_deep_nesting_is_an_error(opening: str, closing: str) -> None:
    with pytest.raises(ExpressionError, match="more than 100 levels"):
        parse(opening * 10_000 + "a" + closing * 10_000)


def test_depth_below_the_limit_works_everywhere() -> None:
    text = "^(" * 99 + "a" + ")" * 99
    tree = parse(text)
    assert tree.depth == 100
    assert parse(str(tree)) == tree
    assert hash(tree) == hash(parse(text))
    assert repr(tree).count("Inverse") == 99
    assert automata.compile(tree) == automata.compile("^a")


@pytest.mark.parametrize("bounds", [(-1, 2), (3, 2)])
def test_a_repetition_has_sensible_bounds(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="minimum"):
        Repetition(a, *bounds)

"""The evaluation and syntax tests of the W3C's SPARQL suites, as rdflib's source distribution brings them.

The suites are no part of this repository: pip brings the source distribution of the rdflib that is installed into a
folder for temporary files, once, unless the environment variable RPQ_W3C_SPARQL names its folder `test/data/suites/w3c`.
Which tests are left out, and why, is listed in `tests/language/w3c_sparql.md`, which `python -m tests.language.w3c_sparql`
writes anew.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyoxigraph
import pytest
import rdflib
from _pytest.mark import ParameterSet
from rdflib.collection import Collection
from rdflib.compare import isomorphic

from tests.language.sparql_libraries import canonical, literals_as_written, term
from tests.reference import Edge, Rejected
from tests.reference_sparql import SparqlPattern
from tests.reference_sparql_checks import check
from tests.reference_sparql_parser import Refused, parse
from tests.services.environments import pip

FOLDERS = ("dawg-data-r2", "sparql11")
MF = rdflib.Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
QT = rdflib.Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-query#")
RS = rdflib.Namespace("http://www.w3.org/2001/sw/DataAccess/tests/result-set#")
OTHER_THINGS = {  # folders about what no query is
    "delete-insert": "updates",
    "entailment": "entailment regimes are not supported",
    "syntax-fed": "SERVICE",
    "service": "SERVICE",
    "json-res": "formats of results",
    "csv-tsv-res": "formats of results",
}
DIFFERENT = {  # what the contract, or SPARQL 1.1, says otherwise than the test
    "expr-builtin/dawg-datatype-2": "SPARQL 1.0: a string with a language had no datatype",
    "syntax-sparql1/syntax-lit-08": "SPARQL 1.0: its grammar had the number `123.`",
    "basic/term-6": "SPARQL 1.0: its grammar had the number `123.`",
    "basic/term-7": "SPARQL 1.0: its grammar had the number `123.`",
    "distinct/distinct-2": "SPARQL 1.0: a string with the type xsd:string and one without a type were different terms",
    "distinct/distinct-9": "SPARQL 1.0: a string with the type xsd:string and one without a type were different terms",
    "functions/strdt03": "SPARQL 1.0: a string with the type xsd:string and one without a type were different terms",
    "functions/strlang03": "SPARQL 1.0: a string with the type xsd:string and one without a type were different terms",
    "regex/dawg-regex-003": "different: an IRI has the value of a string [2.13]",
    "optional-filter/dawg-optional-filter-005-simplified": "SPARQL 1.0: two readings, of which 1.1 has the other one",
    "dataset/dawg-dataset-09": "different: a graph of FROM and FROM NAMED is one graph, with its blank nodes [2.5]",
    "dataset/dawg-dataset-10": "different: a graph of FROM and FROM NAMED is one graph, with its blank nodes [2.5]",
    "dataset/dawg-dataset-12": "different: a graph of FROM and FROM NAMED is one graph, with its blank nodes [2.5]",
    "aggregates/agg-empty-group": "different: groups without bindings have no row [2.8]",
}
_FROM = re.compile(r"\bFROM\s*<([^>]*)>", re.IGNORECASE)
_NAMED = re.compile(r"\bFROM\s+NAMED\s*<([^>]*)>", re.IGNORECASE)
LIST = Path(__file__).with_suffix(".md")


@dataclass(frozen=True)
class Case:
    """A test: a query, perhaps the data and the result, or whether the text should be refused by a parser."""

    name: str
    kind: str  # evaluation, positive, negative
    query: Path
    data: tuple[Path, ...] = ()
    graphs: tuple[Path, ...] = ()
    result: Path | None = None

    @property
    def text(self) -> str:
        text = self.query.read_text(encoding="utf-8")
        return f"BASE <{self.query.as_uri()}>\n{text}" if self.kind == "evaluation" else text

    @property
    def default_graph(self) -> tuple[Path, ...]:
        """The files of the default graph: those that FROM names, else the data of the test."""
        return tuple(self.query.parent / name for name in _FROM.findall(self.text)) or self.data

    @property
    def named_graphs(self) -> dict[str, list[Edge]]:
        """The edges of the named graphs: those that FROM NAMED names, else those of the test, by the IRIs of their files."""
        files = [self.query.parent / name for name in _NAMED.findall(self.text)] or [*self.graphs]
        first = len(self.default_graph)  # its blank nodes are others
        return {file.as_uri(): edges(file, first=first + place) for place, file in enumerate(files)}


@cache
def root() -> Path:
    """Return the folder of the suites; where no registry can be reached the test is skipped, but fails in CI."""
    if named := os.environ.get("RPQ_W3C_SPARQL"):
        return Path(named)
    kept = Path(tempfile.gettempdir()) / f"rpq-w3c-{getattr(os, 'getuid', int)()}-rdflib-{rdflib.__version__}"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            wanted = f"rdflib=={rdflib.__version__}"
            pip("download", "--no-deps", "--no-binary", "rdflib", "--dest", folder, wanted, python=None)
            (archive,) = Path(folder).glob("rdflib-*.tar.gz")
            with tarfile.open(archive) as files:
                files.extractall(folder, filter="data")
            # By one rename, or whoever tests beside us would find half of them.
            beside = kept.with_name(f"{kept.name}.{os.getpid()}")
            shutil.move(Path(folder) / archive.name.removesuffix(".tar.gz") / "test/data/suites/w3c", beside)
        try:
            beside.rename(kept)
        except OSError:
            shutil.rmtree(beside)
    return kept


@cache
def cases() -> tuple[Case, ...]:
    """Return the tests of all manifests that are there, those about updates and protocols not."""
    return tuple(_cases())


SLOW = ("aggregates", "functions")
"""Folders whose tests take seconds, and are left to CI."""


def listed() -> list[ParameterSet]:
    """Return the folders with tests to pass, without a look at the suites.

    >>> "aggregates" in [folder.values[0] for folder in listed()]
    True
    """
    passed, _, _ = LIST.read_text(encoding="utf-8").partition("## Left out")
    folders = re.findall(r"^- (\S+) \(\d+\): ", passed, re.MULTILINE)
    return [pytest.param(folder, marks=[pytest.mark.ci] if folder in SLOW else []) for folder in folders]


def kept_cases(folder: str, *, evaluated: bool) -> list[Case]:
    """Return the tests of a folder that are not left out: those whose queries are evaluated, or those of syntax."""
    of_folder = [case for case in cases() if case.name.partition("/")[0] == folder]
    return [case for case in of_folder if (case.kind == "evaluation") == evaluated and left_out(case) is None]


def _cases() -> Iterator[Case]:
    for manifest in sorted(path for folder in FOLDERS for path in (root() / folder).glob("*/manifest.ttl")):
        graph = rdflib.Graph().parse(manifest)
        for entries in graph.objects(predicate=MF.entries):
            for entry in Collection(graph, entries):
                if (case := _case(graph, manifest, entry)) is not None:
                    yield case


def _case(graph: rdflib.Graph, manifest: Path, entry: rdflib.term.Node) -> Case | None:
    kind = str(graph.value(entry, rdflib.RDF.type)).partition("#")[2]
    kinds = {"QueryEvaluationTest": "evaluation", "CSVResultFormatTest": "evaluation"}
    kinds |= {f"PositiveSyntaxTest{n}": "positive" for n in ("", "11")}
    kinds |= {f"NegativeSyntaxTest{n}": "negative" for n in ("", "11")}
    action = graph.value(entry, MF.action)
    if kind not in kinds or action is None:
        return None

    def path(node: rdflib.term.Node) -> Path:
        return Path(str(node).removeprefix("file://"))

    name = f"{manifest.parent.name}/{str(entry).rpartition('#')[2]}"
    if kinds[kind] != "evaluation":
        return Case(name, kinds[kind], path(action))
    result = graph.value(entry, MF.result)
    return Case(
        name,
        "evaluation",
        path(graph.value(action, QT.query)),
        tuple(map(path, graph.objects(action, QT.data))),
        tuple(map(path, graph.objects(action, QT.graphData))),
        None if result is None else path(result),
    )


# --- terms and graphs -----------------------------------------------------------------------------------------------


def edges(*files: Path, first: int = 0) -> list[Edge]:
    """Read the triples of files; a blank node of each its own, by its number from `first` on."""
    found = []
    for number, file in enumerate(files, first):
        with literals_as_written():
            graph = rdflib.Graph().parse(file, publicID=file.as_uri())
        for triple in graph:
            source, label, target = map(term, triple)
            found.append(tuple(x.replace("_:", f"_:g{number}", 1) if x[:2] == "_:" else x for x in (source, label, target)))
    return found


def expected(case: Case) -> Counter | set[Edge] | bool:
    """Read a result: solutions as frozen sets of (name, term), edges, or yes or no."""
    if case.result.suffix in (".srx", ".srj"):
        form = {".srx": pyoxigraph.QueryResultsFormat.XML, ".srj": pyoxigraph.QueryResultsFormat.JSON}[case.result.suffix]
        found = pyoxigraph.parse_query_results(case.result.read_bytes(), form)
        if isinstance(found, pyoxigraph.QueryBoolean):
            return bool(found)
        names = [variable.value for variable in found.variables]
        return Counter(frozenset((name, term(s[name])) for name in names if s[name] is not None) for s in found)
    with literals_as_written():
        graph = rdflib.Graph().parse(case.result, publicID=case.result.as_uri())
    results = list(graph.subjects(rdflib.RDF.type, RS.ResultSet))
    if not results:
        return {tuple(map(term, triple)) for triple in graph}
    answer = graph.value(results[0], RS.boolean)
    if answer is not None:
        return bool(answer)
    return Counter(
        frozenset(
            (str(graph.value(binding, RS.variable)), term(graph.value(binding, RS.value)))
            for binding in graph.objects(solution, RS.binding)
        )
        for solution in graph.objects(results[0], RS.solution)
    )


def agree(one: Counter | set[Edge] | bool, other: Counter | set[Edge] | bool) -> bool:
    """Return whether two results are equal but for the names of blank nodes and the writing of numbers."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    # Isomorphism takes a second for some hundred solutions; it is needed where blank nodes have names of their own.
    if isinstance(one, Counter) and isinstance(other, Counter) and not any(map(_has_blank_nodes, (one, other))):
        return _written_alike(one) == _written_alike(other)
    return isomorphic(_as_graph(one), _as_graph(other))


def _has_blank_nodes(result: Counter) -> bool:
    return any(text.startswith("_:") for solution in result for _, text in solution)


def _written_alike(result: Counter) -> Counter:
    alike: Counter = Counter()
    for solution, number in result.items():
        alike[frozenset((name, canonical(text)) for name, text in solution)] += number
    return alike


def _as_graph(result: Counter | set[Edge]) -> rdflib.Graph:
    graph = rdflib.Graph()

    def node(text: str) -> rdflib.term.Node:
        return rdflib.BNode(text[2:]) if text.startswith("_:") else rdflib.Literal(canonical(text))

    if isinstance(result, set):
        for source, label, target in result:
            graph.add((node(source), rdflib.URIRef("l:" + str(hash(label))), node(target)))
        return graph
    # One node for equal solutions: rdflib would try in which order the nodes of each are those of the other result.
    for solution, number in _written_alike(result).items():
        row = rdflib.BNode()
        graph.add((row, RS.solution, rdflib.Literal(number)))
        for name, text in solution:
            graph.add((row, rdflib.URIRef("v:" + name), node(text)))
    return graph


# --- verdicts -------------------------------------------------------------------------------------------------------


def left_out(case: Case) -> str | None:
    """Return why a test is left out, None if it is one to pass."""
    folder = case.name.partition("/")[0]
    if folder in OTHER_THINGS:
        return OTHER_THINGS[folder]
    if case.name in DIFFERENT:
        return DIFFERENT[case.name]
    if case.kind == "negative":
        return None
    try:
        query = parse(case.text)
        check(query)
    except Refused as refusal:
        return refusal.construct
    except Rejected:
        return None
    return "NOW, of a query that does not report" if SparqlPattern(query=query).calls_now else None


def listing() -> str:
    """Return the list of the tests, by what they are about, as it stands in `w3c_sparql.md`."""
    passed: dict[str, list[str]] = {}
    out: dict[str, list[str]] = {}
    for case in sorted(cases(), key=lambda case: case.name):
        folder, _, name = case.name.partition("/")
        reason = left_out(case)
        if reason is None:
            passed.setdefault(folder, []).append(name)
        else:
            reason = re.sub(r"\?\w+", "?x", re.sub(r"the function .*", "functions of other vendors", reason))
            out.setdefault(reason, []).append(case.name)
    lines = [
        "# The tests of the W3C's SPARQL 1.0 and 1.1 suites",
        "",
        "The tests are those in the source distribution of rdflib. `python -m tests.language.w3c_sparql` writes this list;",
        "its docstring says where the files are from. Tests of updates and protocols are not listed. Numbers in brackets",
        "are rules of the oracle (`tests/reference_sparql.py`).",
        "",
        f"## To pass: {sum(map(len, passed.values()))}",
        "",
        *(f"- {folder} ({len(names)}): {', '.join(names)}" for folder, names in sorted(passed.items())),
        "",
        f"## Left out: {sum(map(len, out.values()))}, by the first reason met",
        "",
        *(f"- {reason} ({len(names)}): {', '.join(names)}" for reason, names in sorted(out.items())),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    LIST.write_text(listing(), encoding="utf-8")

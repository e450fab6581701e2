"""MATCH in the command: a run over files of every kind, a file of queries with a checkpoint, and explanations."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rpq.cli import main
from tests.cli.edges.test_cli_edge_values import ROWS, run, written

TEXT = (
    "MATCH (x)-[e:transfer WHERE e.amount > 1000]->(y)-[f:transfer]->(z) "
    "WHERE f.timestamp > e.timestamp AND f.amount >= 0.9 * e.amount RETURN x, z, e, f.amount"
)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_run_has_the_rows_of_a_pattern(ending, tmp_path):
    stream, output = written(tmp_path, ending), tmp_path / "rows.parquet"
    messages = run(TEXT, "--input", stream, "--edges", "parallel", "--window", 10, "--slide", 1, "--output", output)
    assert "no tuple has the label" not in messages
    rows = pq.read_table(output)
    assert rows.column_names == ["x", "z", "e", "f.amount", "timestamp", "op"]
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert [(*row[:3], float(row[3]), *row[4:]) for row in found] == ROWS


def test_a_file_of_queries_and_a_checkpoint(tmp_path):
    queries, output = tmp_path / "queries.jsonl", tmp_path / "rows.csv"
    cypher = {"query": "MATCH (x)-[:transfer*2..2]->(y) RETURN DISTINCT x, y", "language": "gql", "name": "far"}
    queries.write_text(json.dumps({"query": TEXT, "name": "near"}) + "\n")
    options = ["--queries", queries, "--edges", "parallel", "--window", 10, "--slide", 1, "--output", output]
    stream = written(tmp_path, "csv")
    lines = stream.read_text().splitlines(keepends=True)
    stream.write_text("".join(lines[:3]))
    run(*options, "--input", stream, "--checkpoint", tmp_path / "checkpoint")
    stream.write_text("".join(lines))
    run(*options, "--input", stream, "--checkpoint", tmp_path / "checkpoint")
    assert [line.split(",")[1:] for line in output.read_text().splitlines()[1:]] == [
        ["a", "c", "1", "1900", "2", "+"],
        ["a", "d", "1", "1990.5", "4", "+"],
    ]
    queries.write_text(json.dumps(cypher) + "\n")
    refused = CliRunner().invoke(main, ["run", *map(str, options), "--input", str(stream)])
    assert refused.exit_code == 2 and "write {2}" in refused.output
    queries.write_text(json.dumps({**cypher, "query": cypher["query"].replace("2..2", "1..2"), "language": "cypher"}) + "\n")
    run(*options[:-1], tmp_path / "far.csv", "--input", stream)
    assert {tuple(line.split(",")[1:3]) for line in (tmp_path / "far.csv").read_text().splitlines()[1:]} == {
        ("a", "b"), ("b", "c"), ("a", "c"), ("b", "d"), ("a", "d"),
    }  # fmt: skip


def test_explain_shows_the_algebra_and_which_edges_may_be_one():
    def explain(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["explain", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    text = "MATCH (x)-[e:a]->(y), ANY (y)-[:b]->+(z) RETURN x, e.n, z"
    explanation = explain(text)
    assert "MATCH, as in GQL" in explanation and "REPEATABLE ELEMENTS" in explanation
    assert "?x ?e:a ?y" in explanation and "?y b+ ?z" in explanation
    assert "DIFFERENT EDGES" in explain(text, "--language", "cypher")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MATCH (a)-[:T]->(b) RETRUN a", "did you mean 'RETURN'"),
        ("MATCH (a)-[:T]->+(b) RETURN a", "needs ANY before it"),
    ],
)
@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_wrong_text_is_pointed_at(command, text, message):
    more = ["--input", "x.csv", "--window", "10", "--slide", "1"] if command == "run" else []
    result = CliRunner().invoke(main, [command, text, *more])
    assert result.exit_code == 2
    assert message in result.output and result.output.rstrip().endswith("^")


LABELLED = [("a", "Account", "is_a"), ("b", "Account", "is_a"), ("a", "Shop", "type")]
LABELLED += [("a", "b", "pays"), ("b", "c", "pays")]
OF_ACCOUNTS = "MATCH (x:Account)-[:pays]->(y) RETURN x, y"


def labelled(tmp_path):
    """Write a stream in which the labels of nodes are edges `is_a`, and those of something else edges `type`."""
    stream = tmp_path / "labelled.csv"
    lines = [f"{source},{target},{label},{time}" for time, (source, target, label) in enumerate(LABELLED, 1)]
    stream.write_text("\n".join(["source,target,label,timestamp", *lines]) + "\n")
    return stream


def test_the_label_of_labels_is_an_option_and_a_field(tmp_path):
    stream, output, queries = labelled(tmp_path), tmp_path / "rows.csv", tmp_path / "queries.toml"
    options = ["--input", stream, "--window", 10, "--slide", 1, "--output", output]
    run(OF_ACCOUNTS, "--node-label", "is_a", *options)
    assert output.read_text().splitlines() == ["x,y,timestamp,op", "a,b,4,+", "b,c,5,+"]
    two = f'[[query]]\nname = "own"\nnode_label = "is_a"\nquery = "{OF_ACCOUNTS}"\n'
    two += '[[query]]\nname = "usual"\nquery = "MATCH (x:Shop)-[:pays]->(y) RETURN x, y"\n'
    queries.write_text(two)
    run("--queries", queries, *options)
    assert sorted(output.read_text().splitlines()[1:]) == ["own,a,b,4,+", "own,b,c,5,+", "usual,a,b,4,+"]
    queries.write_text('[[query]]\nname = "path"\nquery = "?x pays ?y"\n')
    run("--queries", queries, "--node-label", "is_a", *options)
    assert output.read_text().splitlines()[1:] == ["path,a,b,4,+", "path,b,c,5,+"]


@pytest.mark.parametrize("text", ["pays+", "?x pays ?y"])
def test_the_label_of_labels_is_refused_elsewhere(text, tmp_path):
    options = ["--input", str(labelled(tmp_path)), "--window", "10", "--slide", "1", "--node-label", "is_a"]
    for command in (["run", text, *options], ["explain", text, "--node-label", "is_a"]):
        refused = CliRunner().invoke(main, command)
        assert refused.exit_code == 2 and "--node-label is" in refused.output and "MATCH" in refused.output
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"query": text, "node_label": "is_a"}) + "\n")
    refused = CliRunner().invoke(main, ["run", "--queries", str(queries), *options[:-2]])
    assert refused.exit_code == 2 and "field node_label" in refused.output and "MATCH" in refused.output


def test_parameters_are_options_and_fields(tmp_path):
    stream, output, queries = labelled(tmp_path), tmp_path / "rows.csv", tmp_path / "queries.toml"
    options = ["--input", stream, "--window", 10, "--slide", 1, "--output", output]
    text = "MATCH (x {id: $who})-[:pays]->(y) WHERE NOT y.id IN $but RETURN x, y"
    run(text, "--param", "who=a", "--param", 'but=["c", "d"]', *options)
    assert output.read_text().splitlines()[1:] == ["a,b,4,+"]
    queries.write_text(
        f"""
        [defaults]
        parameters = {{ who = "a", but = [] }}
        [[query]]
        name = "usual"
        query = "{text}"
        [[query]]
        name = "own"
        query = "{text}"
        parameters = {{ who = "b" }}
        [[query]]
        name = "path"
        query = "pays/pays"
        output = "{tmp_path / "paths.csv"}"
        """
    )
    run("--queries", queries, "--param", "other=5", *options)
    assert sorted(output.read_text().splitlines()[1:]) == ["own,b,c,5,+", "usual,a,b,4,+"]
    assert (tmp_path / "paths.csv").read_text().splitlines()[1:] == ["path,a,c,5,+"]


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("pays+", ["x=1"], "--param is an option of MATCH"),
        ("MATCH (x {id: $who}) RETURN x", [], "--param who="),
        ("MATCH (x {id: $who}) RETURN x", ["whom=a"], "did you mean 'whom'?"),
        ("MATCH (x {id: $who}) RETURN x", ["who=a", "other=1"], "--param: the text has no $other"),
        ("MATCH (x {id: $who}) RETURN x", ["who"], "expected NAME=VALUE"),
        ("MATCH (x {id: $who}) RETURN x", ["who=a", "who=b"], "who has two values"),
        ("MATCH (x {id: $who}) RETURN x", ["who=1e999"], "--param: who is inf"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(text, values, message):
    refused = CliRunner().invoke(main, ["explain", text, *(part for value in values for part in ("--param", value))])
    assert refused.exit_code == 2 and message in refused.output


def test_with_an_empty_label_of_labels_records_alone_have_labels(tmp_path):
    stream, nodes, output = labelled(tmp_path), tmp_path / "nodes.csv", tmp_path / "rows.csv"
    nodes.write_text("node,labels,risk\na,Shop;Account,4\nb,,1\n")
    text = "MATCH (x:Account)-[:pays]->(y) RETURN x, y.risk, labels(x) AS l"
    options = ["--input", stream, "--nodes", nodes, "--window", 10, "--slide", 1, "--output", output]
    assert "no tuple has the label" not in run(text, "--node-label", "", *options)
    assert output.read_text().splitlines()[1:] == ['a,1,"[""Account"", ""Shop""]",4,+']
    run(text, "--node-label", "is_a", *options)
    assert len(output.read_text().splitlines()[1:]) == 2

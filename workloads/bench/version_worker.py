"""The process that `rpq bench versions` starts for each version: a program, run by the Python of that version.

It reads one JSON object per line from standard input, runs the described task, and answers with one JSON object per line.
It uses only old public names of `rpq`, so that it also runs under earlier versions, and imports nothing else of this
package.
"""

import hashlib
import json
import pathlib
import sys
import time

import pyarrow as pa

import rpq

_BATCHES: dict[tuple[str, int], list[pa.RecordBatch]] = {}


def read_batches(path, rows):
    """Return the record batches of an Arrow file, with at most `rows` rows each; batches are cached."""
    if (path, rows) not in _BATCHES:
        with pa.memory_map(path) as file:
            table = pa.ipc.open_file(file).read_all()
        _BATCHES[path, rows] = table.to_batches(max_chunksize=rows)
    return _BATCHES[path, rows]


def make_queries(task):
    """Return the queries of a task, all under its window."""
    window = rpq.Window(size=task["window"][0], slide=task["window"][1]) if task["window"] else rpq.UnboundedWindow()
    texts = task["texts"]
    if isinstance(texts, str):
        texts = json.loads(pathlib.Path(texts).read_text())
    options = task.get("options", {})
    return [rpq.Query(text, window=window, name=f"query {number}", **options) for number, text in enumerate(texts)]


def run(task):
    """Push a whole stream in fresh engines; return the CPU seconds of registration and of pushes, and the rows of a run."""
    batches = read_batches(task["stream"], task["batch_rows"])
    runs = task.get("runs", 1)
    registering = pushing = 0.0
    for _ in range(runs):
        queries = make_queries(task)
        begun = time.process_time()
        engine = rpq.Engine(*queries)
        registered = time.process_time()
        added = removed = 0
        for batch in batches:
            changes = engine.push(batch, collect=task["tables"])
            if task["tables"]:
                changes.tables()
            added, removed = added + changes.added, removed + changes.removed
        ended = time.process_time()
        registering, pushing = registering + registered - begun, pushing + ended - registered
    return {"register": registering / runs, "seconds": pushing / runs, "rows": [added, removed]}


def insert(task):
    """Insert tuples one by one after a part of the stream; return quantiles of the microseconds of a call with its rows."""
    batches = read_batches(task["stream"], task["batch_rows"])
    engine = rpq.Engine(*make_queries(task))
    table = pa.Table.from_batches(batches)
    for batch in table.slice(task["begin"], task["first"] - task["begin"]).to_batches():
        engine.push(batch, collect=False)
    single = table.slice(task["first"], task["calls"])
    columns = [single[name].to_pylist() for name in ("source", "target", "label", "timestamp")]
    clock = time.perf_counter_ns
    times, rows = [], 0
    for one in zip(*columns, strict=True):
        started = clock()
        changed = engine.insert(*one).rows()
        times.append(clock() - started)
        rows += len(changed)
    times.sort()
    return {"median": times[len(times) // 2] / 1e3, "p99": times[int(len(times) * 0.99)] / 1e3, "rows": [rows, 0]}


def describe():
    """Return the version and a digest of its sources, by which two runs of the experiment recognise the same code."""
    package = pathlib.Path(rpq.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    # Not every Python follows links to folders, which a checkout contains.
    for path in sorted((package / "automata").glob("*.py")):
        digest.update(path.read_bytes())
    return {"version": rpq.__version__, "sources": digest.hexdigest()[:16]}


def peak_bytes():
    """Return the high-water mark of this process's resident memory, from /proc or otherwise from `resource`."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def stream_memory(task):
    """Push a stream batch by batch from its file; return the peak memory of this process, in megabytes."""
    engine = rpq.Engine(*make_queries(task))
    added = removed = 0
    with pa.OSFile(task["stream"], "rb") as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            changes = engine.push(reader.get_batch(number), collect=False)
            added, removed = added + changes.added, removed + changes.removed
    return {"megabytes": peak_bytes() / 1e6, "rows": [added, removed]}


TASKS = {"run": run, "insert": insert, "memory": stream_memory}


def main():
    """Answer tasks until standard input ends."""
    print(json.dumps(describe()), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            found = TASKS[task["do"]](task)
        except Exception as error:  # an earlier version may lack what a task needs
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

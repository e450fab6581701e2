"""From topics to a table of PostgreSQL: the walk of `examples/kafka`, and what is committed with rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.kafka.kafka_process import ROOT


def test_a_table_equals_the_answer_over_changes_of_a_database_after_ten_kills(kafka, postgres, tmp_path) -> None:
    script = ROOT / "examples" / "kafka" / "debezium_to_postgresql.py"
    ran = subprocess.run(
        [sys.executable, str(script), kafka.broker.address, postgres.login],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    first, last = ran.stdout.splitlines()
    assert first == "at least 6,000 changes of transfers, and the run was killed 10 times"
    count = re.fullmatch(r"the ([\d,]+) pairs of accounts in the table are those of the \d+ transfers that are left", last)
    assert count is not None and int(count[1].replace(",", "")) > 20

"""Results that are written as they come, and read by polars and DuckDB without headend holding them."""

import json
import subprocess
import sys

import duckdb
import polars
import pytest

import headend

SCENARIO = """
seed = 7
runs = 5
duration = "20 s"
interval = "100 ms"
[nodes]
server = {}
pc = {}
[links.line]
between = ["server", "pc"]
rate = "10 Mbit/s"
delay = "10 ms"
[flows.get]
from = "server"
to = "pc"
bytes = "30 KB"
[sweep]
"links.line.loss" = ["0%", "3%"]
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Ten runs in four parts, one of them of both points."""
    return headend.run(SCENARIO, store=tmp_path_factory.mktemp("whole") / "store", task_runs=3)


def test_a_store_holds_what_a_run_in_memory_yields(whole):
    result = headend.run(SCENARIO)
    loaded = whole.load()
    assert (whole.points, whole.runs, whole.tasks, len(whole.parts)) == (2, 5, 4, 4)
    for table in ("flows", "links", "intervals"):
        assert getattr(loaded, table) == getattr(result, table), table
    assert loaded.circuits is None
    assert headend.run(loaded.scenario).flows == result.flows


def test_a_store_is_loaded_reported_and_drawn_like_other_results(whole, tmp_path):
    assert headend.Result.load(whole.folder).flows == whole.load().flows
    for module, words in (("report", ["--out", tmp_path / "page"]), ("plot", ["--out", tmp_path / "plot.svg"])):
        command = [sys.executable, "-m", f"headend.{module}", whole.folder, *words]
        subprocess.run(command, check=True, capture_output=True)
    assert "links.line.loss" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "links.line.loss" in (tmp_path / "plot.svg").read_text(encoding="utf-8")


def test_three_shards_together_are_the_whole(whole, tmp_path):
    for shard in ("2/3", "1/3"):
        part = headend.run(SCENARIO, store=tmp_path / "shards", shard=shard, task_runs=3)
        with pytest.raises(ValueError, match="of 4 parts: run the others"):
            headend.scan(tmp_path / "shards")
    assert 0 < part.scan(partial=True).collect().height < 10
    headend.run(SCENARIO, store=tmp_path / "shards", shard="3/3", task_runs=3)
    for table in ("flows", "links", "intervals"):
        assert headend.scan(tmp_path / "shards", table).collect().equals(whole.scan(table).collect())


def test_a_scan_is_lazy_typed_and_without_a_value_null(whole):
    scan = headend.scan(whole.folder)
    assert isinstance(scan, polars.LazyFrame)
    schema = scan.collect_schema()
    assert schema["run"] == polars.UInt64
    assert schema["goodput_bps"] == polars.Float64
    assert schema["links.line.loss"] == polars.String
    medians = scan.group_by("links.line.loss").agg(polars.col("goodput_bps").median()).collect()
    assert medians.height == 2
    intervals = headend.scan(whole.folder, "intervals").collect()
    assert not any(column.is_nan().any() for column in intervals.select(polars.selectors.float()))


def test_units_are_in_the_metadata_of_every_file(whole):
    for path in (whole.folder / "flows").glob("*.parquet"):
        units = json.loads(polars.read_parquet_metadata(path)["headend.units"])
        assert units["goodput_bps"] == "bit/s"
        assert units["bytes"] == "B"


def test_duckdb_reads_the_same_folder(whole):
    query = f"""select "links.line.loss", count(*), median(goodput_bps)
                from '{whole.folder}/flows/*.parquet' group by 1 order by 1"""
    (lossless, lossy) = duckdb.sql(query).fetchall()
    assert lossless[:2] == ("0%", 5)
    assert lossy[:2] == ("3%", 5)
    frame = whole.scan().filter(polars.col("links.line.loss") == "3%").collect()
    assert lossy[2] == frame["goodput_bps"].median()


def test_what_does_not_belong_to_a_store_is_refused(whole, tmp_path):
    with pytest.raises(headend.SimulationError, match="another scenario, sweep, seed or number of runs"):
        headend.run(SCENARIO, store=whole.folder, seed=8)
    header = json.loads((whole.folder / "store.json").read_text())
    (tmp_path / "store.json").write_text(json.dumps({**header, "build": "0.0.9+abc"}))
    with pytest.raises(headend.SimulationError, match="results of two builds are not mixed"):
        headend.run(SCENARIO, store=tmp_path)
    with pytest.raises(TypeError, match="name one with store="):
        headend.run(SCENARIO, shard="1/3")
    with pytest.raises(TypeError, match="keeps no traces"):
        headend.run(SCENARIO, store=tmp_path / "new", trace=True)
    with pytest.raises(ValueError, match="no table 'circuits'"):
        whole.scan("circuits")
    with pytest.raises(FileNotFoundError, match=r"no store\.json"):
        headend.scan(tmp_path / "nothing")

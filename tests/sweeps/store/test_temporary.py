import fcntl

from sweeps.store.temporary import held_folder


def test_folders_of_killed_processes_are_removed_and_those_of_living_ones_are_not(tmp_path):
    for name in ("dead", "alive"):
        (tmp_path / f"stsq-ray-{name}").mkdir()
        (tmp_path / f"stsq-ray-{name}/held").touch()
    (tmp_path / "someone-elses").mkdir()
    with (tmp_path / "stsq-ray-alive/held").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with held_folder("stsq-ray-", tmp_path) as own:
            assert {path.name for path in tmp_path.iterdir()} == {"stsq-ray-alive", "someone-elses", own.name}
    assert {path.name for path in tmp_path.iterdir()} == {"stsq-ray-alive", "someone-elses"}

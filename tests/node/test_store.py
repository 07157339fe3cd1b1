from node.store import Store, StoredJob
from verillm.rpc import verillm_pb2 as pb


def _job(n: int, nonce: int) -> StoredJob:
    return StoredJob(bytes([n]) * 32, "running", "0xC1", nonce, 10**30 + n, pb.SubmitRequest(prompt=[n, 2]))


def test_jobs_and_rounds_survive_reopening(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    assert store.insert_job(_job(1, 0))
    store.set_committed(b"\1" * 32, pb.Transcript(output=[5]), {"attempt": 1})
    key = store.add_round({"stage": "commit"})
    store.save_round(key, {"stage": "draw"})
    store.close()

    store = Store(tmp_path / "s.sqlite")
    job = store.job(b"\1" * 32)
    assert job is not None
    assert job.state == "committed"
    assert job.transcript is not None
    assert list(job.transcript.output) == [5]
    assert job.draw == {"attempt": 1}
    assert store.open_rounds() == [(key, {"stage": "draw"})]
    store.save_round(key, {"stage": "draw"}, done=True)
    assert store.open_rounds() == []


def test_a_nonce_or_job_is_taken_once(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    assert store.insert_job(_job(1, 0))
    assert not store.insert_job(_job(1, 1))
    assert not store.insert_job(_job(2, 0))
    assert store.insert_job(_job(2, 1))


def test_outstanding_counts_only_jobs_that_may_be_charged(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.insert_job(_job(1, 0))
    store.insert_job(_job(2, 1))
    assert store.outstanding("0xC1") == 2 * 10**30 + 3
    store.set_state(b"\1" * 32, "failed", "no worker")
    assert store.outstanding("0xC1") == 10**30 + 2
    assert store.outstanding("0xC2") == 0

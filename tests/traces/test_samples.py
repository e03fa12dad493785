"""The sample logs: found by name, and made anew with the same content."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.traces.samples import lublin_1000, regenerate, sample_names, sample_path
from simkit.traces.swf import read_swf


def test_regenerating_gives_the_same_log(tmp_path):
    new, shipped = regenerate(tmp_path).read_bytes(), sample_path("lublin_1000").read_bytes()
    # The packed bytes depend on the version of zlib too, so those of the text decide.
    assert gzip.decompress(new) == gzip.decompress(shipped)
    assert shipped[4:8] == bytes(4), "the gzip header must hold no time of making"
    assert new == regenerate(tmp_path).read_bytes()


def test_the_sample_reads_back_unrepaired():
    trace, made = read_swf(sample_path("lublin_1000")), lublin_1000().workload
    assert trace.report.read == trace.report.accepted == 1000
    for name in ("submit_time_s", "run_time_s", "requested_time_s", "instances", "user"):
        assert np.array_equal(getattr(trace.workload, name), getattr(made, name))
    assert trace.workload.capacity == {"processors": 128.0}


def test_names():
    assert sample_names() == ["lublin_1000"]
    assert sample_path("lublin_1000.swf.gz") == sample_path("lublin_1000")
    with pytest.raises(TraceError, match="no sample log is called 'lublin1000'; did you mean"):
        sample_path("lublin1000")

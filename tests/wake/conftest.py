from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def engine_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the real server's script and the models are."""
    pytest.importorskip("xllamacpp", reason="the extra `race` brings the engine")
    pytest.importorskip("gguf", reason="the extra `race` brings the writer of models")
    return tmp_path_factory.mktemp("engine")

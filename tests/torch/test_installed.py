"""Packages that were installed without the backend, for another torch, or not whole."""

import os
import pathlib
import subprocess
import sys

import pytest


def installed(folder):
    """A folder from which torch finds our entry point; a Python that looks for packages there first."""
    import fabring

    autoload = pathlib.Path(fabring.__file__).parent.parent / "fabring_torch_autoload.py"
    (folder / autoload.name).symlink_to(autoload.resolve())
    about = folder / "fabring_here-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fabring-here\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[torch.backends]\nfabring = fabring_torch_autoload:register\n")

    def python(code, *options):
        return subprocess.run([sys.executable, *options, "-c", code], env={**os.environ, "PYTHONPATH": str(folder)},
                              capture_output=True, text=True, timeout=120)

    return python


PLAIN = "import torch; print(torch.ones(2).sum().item())"
ASKED = "import torch.distributed as d\nd.init_process_group('fabring', init_method='file://%s', rank=0, world_size=1)"


def test_a_package_without_the_backend_says_so_when_it_is_asked_for(tmp_path):
    """As `pip install .` leaves it, which builds where there is no torch: torch works, and the backend names the remedy."""
    import fabring

    package = tmp_path / "fabring"
    package.mkdir()
    for file in pathlib.Path(fabring.__file__).parent.iterdir():
        if file.name != "torch":
            (package / file.name).symlink_to(file.resolve())
    (package / "torch").symlink_to(pathlib.Path(__file__).parents[2] / "bindings/torch/without/torch")
    python = installed(tmp_path)
    plain = python(PLAIN)
    assert plain.stdout == "2.0\n" and plain.stderr == "", plain.stderr
    for code in (ASKED % (tmp_path / "store"), "import fabring.torch"):
        asked = python(code)
        assert asked.returncode != 0 and "--no-build-isolation" in asked.stderr, asked.stderr


def test_the_backend_of_another_torch_says_how_to_build_it_again(tmp_path):
    """--no-deps: pip would install all that the package depends on anew, and maybe another torch."""
    import fabring.torch

    for folder in (pathlib.Path(fabring.__file__).parent, pathlib.Path(fabring.torch.__file__).parent):
        package = tmp_path / "fabring" / ("torch" if folder.name == "torch" else "")
        package.mkdir()
        for file in folder.iterdir():
            if file.name not in ("torch", "_built_for.py", "__pycache__"):
                (package / file.name).symlink_to(file.resolve())
    (tmp_path / "fabring" / "torch" / "_built_for.py").write_text('torch = "1.0.0"\n')
    plain = installed(tmp_path)(PLAIN)
    assert plain.stdout == "2.0\n" and "built for torch 1.0.0" in plain.stderr, plain.stderr
    assert "--no-build-isolation --force-reinstall --no-deps ." in plain.stderr, plain.stderr


@pytest.mark.parametrize("what, error", [("fabring", "OSError"), ("fabring", "ModuleNotFoundError"),
                                         ("fabring/torch", "RuntimeError")])
def test_torch_can_be_imported_where_the_package_cannot(tmp_path, what, error):
    for folder in ("fabring", "fabring/torch"):
        (tmp_path / folder).mkdir()
        text = f"raise {error}('libcrypto.so.3: cannot open')\n" if folder == what else ""
        (tmp_path / folder / "__init__.py").write_text(text)
    python = installed(tmp_path)
    for options in ((), ("-W", "error")):
        plain = python(PLAIN, *options)
        assert plain.stdout == "2.0\n", plain.stderr
        assert "the backend 'fabring' is not available" in plain.stderr and "libcrypto.so.3" in plain.stderr, plain.stderr
    asked = python(ASKED % (tmp_path / "store"))
    assert asked.returncode != 0 and f"not available: {error}: libcrypto.so.3" in asked.stderr.split("Traceback")[-1], asked.stderr

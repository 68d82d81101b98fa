"""Record what kube-scheduler writes with --write-config-to, for all configurations of this folder.

    python -m tests.config.written.record /path/to/kube-scheduler      (v1.36.3)

`NAME.in.yaml` is the file of --config, or only comments; a first line `# flags: ...` has more
flags. `NAME.out.yaml` is the recording.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
#: No server is contacted before the configuration is written.
MASTER = "--master=http://127.0.0.1:1"


def arguments(source: Path, target: Path) -> list[str]:
    """Return the command line for one configuration."""
    text = source.read_text(encoding="utf-8")
    flags = text.partition("\n")[0].removeprefix("# flags:").split() if "# flags:" in text else []
    has_content = any(line and not line.startswith("#") for line in text.splitlines())
    config = [f"--config={source}"] if has_content else []
    return [MASTER, *config, *flags, f"--write-config-to={target}"]


def main(binary: str) -> None:
    for source in sorted(FOLDER.glob("*.in.yaml")):
        target = source.with_name(source.name.replace(".in.", ".out."))
        target.unlink(missing_ok=True)
        run = subprocess.run(
            [binary, *arguments(source, target)], capture_output=True, encoding="utf-8", check=False
        )
        if not target.exists():
            sys.stdout.write(f"{source.name}: {run.stderr.splitlines()[-1]}\n")


if __name__ == "__main__":
    main(sys.argv[1])

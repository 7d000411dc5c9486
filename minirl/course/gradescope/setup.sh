#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image: the minirl of this zip, in a virtual environment.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
cd "$root/source"
export PIP_CONFIG_FILE="$PWD/pip.conf"

python3 -m venv --clear "$root/venv" || {
    apt-get update
    apt-get install -y python3-venv
    python3 -m venv --clear "$root/venv"
}
"$root/venv/bin/python" -m pip install . -c constraints.txt

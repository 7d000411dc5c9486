"""Re-execute notebooks in full, in a fresh kernel each, and keep outputs that are the same whoever runs them.

Pictures keep 256 colours, which nobody sees and which halves the file. Dropped: timing, the kernel's version, what progress bars and warnings leave on stderr, and views of widgets, which show
nothing without a kernel (a picture beside a widget stays).
"""

import base64
import io
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image
from tqdm import tqdm

WIDGET = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def worth_keeping(output: dict) -> bool:
    if output["output_type"] == "stream":
        return output["name"] != "stderr"
    data = output.get("data", {})
    return WIDGET not in data or any(kind.startswith("image/") for kind in data)


def with_256_colours(png: str) -> str:
    """The same picture in fewer bytes; both are base64."""
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode() + "\n"


def execute(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    keep = {"record_timing": False, "store_widget_state": False, "coalesce_streams": True}
    NotebookClient(notebook, kernel_name="python3", timeout=900, **keep).execute(cwd=str(path.parent))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if worth_keeping(output)]
            for output in cell.outputs:
                data = output.get("data", {})
                data.pop(WIDGET, None)
                if "image/png" in data:
                    data["image/png"] = with_256_colours(data["image/png"])
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    nbformat.write(notebook, path)


def main() -> None:
    os.environ.pop("MINIRL_FAST", None)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # tensors are tiny: threads would mostly wait for each other
    for name in tqdm(sys.argv[1:], desc="notebooks", unit="notebook"):
        tqdm.write(name, sys.stderr)
        execute(Path(name))


if __name__ == "__main__":
    main()

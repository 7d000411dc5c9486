"""nbformat, imported without the grammar of internet addresses, which would take a second and is not needed here."""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # jsonschema does without it when it is not there
import nbformat  # noqa: E402

__all__ = ["nbformat"]

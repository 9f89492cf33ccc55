"""What a wheel says of itself, from the [project] table of a pyproject.toml (PEP 621, 639)."""

from __future__ import annotations

import re

try:
    import tomllib
except ImportError:  # Python 3.9 and 3.10
    try:
        import tomli as tomllib
    except ImportError:
        from pip._vendor import tomli as tomllib

KNOWN = {"name", "version", "description", "readme", "requires-python", "license",
         "license-files", "keywords", "classifiers", "dependencies", "optional-dependencies",
         "urls"}


class Project:
    """The project in ``folder``, whose licence lies in ``root``."""

    def __init__(self, folder, root):
        with open(folder / "pyproject.toml", "rb") as file:
            self.table = tomllib.load(file)["project"]
        unknown = set(self.table) - KNOWN
        if unknown:
            raise ValueError(f"{folder}/pyproject.toml: [project] has {sorted(unknown)}")
        self.folder, self.root = folder, root
        self.name, self.version = self.table["name"], self.table["version"]
        self.file_name = f"{re.sub(r'[-_.]+', '_', self.name).lower()}-{self.version}"
        self.dist_info = f"{self.file_name}.dist-info"

    def metadata(self):
        """Core metadata, version 2.4."""
        table = self.table
        lines = ["Metadata-Version: 2.4", f"Name: {self.name}", f"Version: {self.version}",
                 f"Summary: {table['description']}"]
        if table.get("keywords"):
            lines.append(f"Keywords: {','.join(table['keywords'])}")
        lines += [f"License-Expression: {table['license']}", "License-File: LICENSE"]
        lines += [f"Classifier: {name}" for name in table.get("classifiers", ())]
        lines += [f"Project-URL: {name}, {url}" for name, url in table.get("urls", {}).items()]
        lines.append(f"Requires-Python: {table['requires-python']}")
        lines += [f"Requires-Dist: {need}" for need in table.get("dependencies", ())]
        for extra, needs in table.get("optional-dependencies", {}).items():
            lines.append(f"Provides-Extra: {extra}")
            lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
        body = ""
        if "readme" in table:
            lines.append("Description-Content-Type: text/markdown")
            body = "\n" + (self.folder / table["readme"]).read_text(encoding="utf-8")
        return ("\n".join(lines) + "\n" + body).encode()

    def files(self):
        """{name: bytes} of the dist-info folder, but for WHEEL and RECORD."""
        return {"METADATA": self.metadata(),
                "licenses/LICENSE": (self.root / "LICENSE").read_bytes()}

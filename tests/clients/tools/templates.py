"""Unpacks the SQL templates of a wheel into a folder: templates.py WHEEL FOLDER."""

import sys
import zipfile

wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    wanted = [name for name in archive.namelist() if "/templates/" in name and name.endswith((".sql", ".macros"))]
    archive.extractall(folder, wanted)
    package = wanted[0].split("/")[0]
with open(f"{folder}/{package}/version", "w") as version:
    version.write(wheel.split("/")[-1].split("-")[1])

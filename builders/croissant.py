"""Croissant metadata of a release: files with sha256, a record set for each config and split, Responsible-AI fields.

Generated from the manifest in Croissant 1.0 with the vocabulary of its RAI extension 1.0. Addresses are
relative: the file describes the folder, or the copy of a repository, that it lies in.
"""

import json
import re
from typing import Any

from ..manifest import MANIFEST_NAME, Manifest
from . import facts

_DATA_TYPE = {
    "string": "sc:Text",
    "int64": "sc:Integer",
    "double": "sc:Float",
    "bool": "sc:Boolean",
    "timestamp[ms, tz=UTC]": "sc:DateTime",
    "timestamp[us, tz=UTC]": "sc:DateTime",
    "list": "sc:Integer",
}

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def render_croissant(manifest: Manifest, manifest_sha256: str) -> str:
    """Write the Croissant metadata of a release.

    Parameters
    ----------
    manifest : Manifest
    manifest_sha256 : str
        Of the manifest's bytes.

    Returns
    -------
    str
        JSON-LD.
    """
    snapshot = manifest.snapshot
    content: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": "orbittrace" if manifest.kind == "benchmark" else "orbittrace-derived",
        "alternateName": facts.TITLE,
        "description": _plain(
            " ".join(filter(None, (facts.what_it_is(manifest), facts.origin(manifest), _energy(manifest))))
        ),
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "version": manifest.version,
        "url": facts.PAPER_URL,
        "license": snapshot["licence_notice"],
        "citeAs": facts.bibtex(manifest),
        "creator": {"@type": "sc:Organization", "name": facts.CURATORS},
        "keywords": list(facts.KEYWORDS),
        "datePublished": snapshot["newest_epoch"][:10],
        "temporalCoverage": f"{facts.instant(manifest.start_ms)}/"
        f"{facts.instant(manifest.start_ms + manifest.span_ms)}",
        "isLiveDataset": False,
        **_responsible_ai(manifest),
        "distribution": [*_files(manifest, manifest_sha256), *_file_sets(manifest)],
        "recordSet": [
            _record_set(manifest, config, split)
            for config in manifest.schema
            for split in _splits(manifest, config)
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _responsible_ai(manifest: Manifest) -> dict[str, Any]:
    snapshot = manifest.snapshot
    return {
        "rai:dataCollection": facts.COLLECTION,
        "rai:dataCollectionType": ["Secondary Data Analysis", "Software Collection"],
        "rai:dataCollectionRawData": f"{snapshot['source']} Citation: {snapshot['citation']}",
        "rai:dataCollectionTimeframe": [snapshot["oldest_epoch"], snapshot["newest_epoch"]],
        "rai:dataCollectionMissingData": facts.missing(manifest).capitalize(),
        "rai:dataPreprocessingProtocol": facts.PREPROCESSING,
        "rai:dataBiases": " ".join(facts.BIASES),
        "rai:dataLimitations": _plain(" ".join((*facts.LIMITS, "Not for:", *facts.OUT_OF_SCOPE))),
        "rai:dataUseCases": _plain(" ".join(facts.USES)),
        "rai:dataSocialImpact": facts.SOCIAL_IMPACT,
        "rai:personalSensitiveInformation": facts.SENSITIVE,
        "rai:dataReleaseMaintenancePlan": _plain(facts.MAINTENANCE),
        # Numbers from a physical model of real objects; nothing was drawn from a generative model.
        "rai:hasSyntheticData": False,
        "prov:wasDerivedFrom": snapshot["citation"],
        "prov:wasGeneratedBy": ", ".join(f"{name} {version}" for name, version in manifest.tools.items()),
    }


def _files(manifest: Manifest, manifest_sha256: str) -> list[dict[str, Any]]:
    described = [(MANIFEST_NAME, manifest_sha256, "application/json", None)]
    described += [(f.path, f.sha256, "application/x-parquet", f.bytes) for f in manifest.files]
    return [
        {
            "@type": "cr:FileObject",
            "@id": path,
            "name": path.rpartition("/")[2],
            "contentUrl": path,
            "encodingFormat": encoding,
            "sha256": sha256,
            **({} if size is None else {"contentSize": f"{size} B"}),
        }
        for path, sha256, encoding, size in described
    ]


def _file_sets(manifest: Manifest) -> list[dict[str, Any]]:
    """Describe the splits that are divided into several files."""
    return [
        {
            "@type": "cr:FileSet",
            "@id": f"{config}/{split}-files",
            "name": f"{config}-{split}-files",
            "encodingFormat": "application/x-parquet",
            "includes": f"data/{config}/{split}-*.parquet",
        }
        for config in manifest.schema
        for split in _splits(manifest, config)
        if len(manifest.files_of(config, split)) > 1
    ]


def _splits(manifest: Manifest, config: str) -> list[str]:
    return list(dict.fromkeys(file.split for file in manifest.files_of(config)))


def _record_set(manifest: Manifest, config: str, split: str) -> dict[str, Any]:
    """Describe a split of a config; readers check the sha256 of a file that a record set names itself."""
    files = manifest.files_of(config, split)
    source = (
        {"fileObject": {"@id": files[0].path}}
        if len(files) == 1
        else {"fileSet": {"@id": f"{config}/{split}-files"}}
    )
    return {
        "@type": "cr:RecordSet",
        "@id": f"{config}/{split}",
        "name": f"{config}/{split}",
        "description": f"{facts.CONFIG_MEANING[config]} (split {split})",
        "field": [_field(f"{config}/{split}", column, source) for column in manifest.schema[config]],
    }


def _field(record_set: str, column: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    name, kind = column["name"], column["type"]
    repeated = kind.startswith("list")
    return {
        "@type": "cr:Field",
        "@id": f"{record_set}/{name}",
        "name": name,
        "description": _plain(facts.COLUMN_MEANING[name]),
        "dataType": _DATA_TYPE["list" if repeated else kind],
        **({"repeated": True} if repeated else {}),
        "source": {**source, "extract": {"column": name}},
    }


def _energy(manifest: Manifest) -> str:
    return "" if manifest.power is None else f"In `energy`, the payload of {facts.power(manifest)}."


def _plain(markdown: str) -> str:
    return re.sub(r"[`*]", "", markdown)

"""Rebuild the release inside the package: ``python -m orbittrace_data.builders.bundle`` in a checkout.

For maintainers: this freezes the current rows as the latest data version. Rows that were published
under a version never change; a changed row is a new version (see CHANGELOG.md).
"""

import hashlib
import json

from ..atomic import write_bytes
from ..loader import BUNDLED, FROZEN
from ..manifest import MANIFEST_NAME
from .recipe import benchmark_recipe
from .release import build_release


def main() -> None:
    """Build the benchmark into the package and write down its digests."""
    recipe = benchmark_recipe()
    frozen = json.loads(FROZEN.read_bytes()) if FROZEN.exists() else {}
    before = frozen.pop(recipe.version, {})
    write_bytes(FROZEN, (json.dumps(frozen, indent=2) + "\n").encode())
    manifest = build_release(recipe, BUNDLED)
    frozen[recipe.version] = {
        "content_digest": manifest.content_digest,
        "traces_digest": manifest.traces_digest,
        "manifest_sha256": hashlib.sha256((BUNDLED / MANIFEST_NAME).read_bytes()).hexdigest(),
    }
    write_bytes(FROZEN, (json.dumps(frozen, indent=2, sort_keys=True) + "\n").encode())
    changed = before.get("content_digest") not in (None, manifest.content_digest)
    print(
        f"{manifest.version}: content sha256 {manifest.content_digest}{' (the rows CHANGED)' if changed else ''}"
    )


if __name__ == "__main__":
    main()

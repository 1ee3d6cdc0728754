"""The commands that publish what was built. They are printed: whoever has the keys runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.manifests.release_image import REPOSITORY, VERSION

if TYPE_CHECKING:
    from pathlib import Path

_OWNER: Final = REPOSITORY.rpartition("/")[0]
_COMMANDS: Final = """\
# 1. Tag the commit that this was built from.
git tag -s v{version} -m v{version}
git push origin v{version}

# 2. Build and push the image, on a base that is named by its digest.
digest() {{ docker buildx imagetools inspect --format '{{{{.Manifest.Digest}}}}' "$1"; }}
base=python:{python}-slim@$(digest python:{python}-slim)
docker buildx build --push --platform linux/amd64,linux/arm64 --build-arg BASE=$base \\
  --provenance=mode=max --sbom=true -t {repository}:{version} .

# 3. Push the chart.
helm push {folder}/numakube-{version}.tgz oci://{owner}/charts

# 4. Sign, without a key of your own (a browser asks who you are) ...
image={repository}@$(digest {repository}:{version})
cosign sign --yes $image
cosign attest --yes --type cyclonedx --predicate {folder}/numakube-{version}.cdx.json $image
for file in {folder}/SHA256SUMS {folder}/numakube-{version}.intoto.json; do
  cosign sign-blob --yes --bundle $file.sigstore.json $file
done
# ... or with one: add `--key cosign.key` to each (made once by `cosign generate-key-pair`).

# 5. Upload the packages and the files of the release.
twine upload {packages}
gh release create v{version} --verify-tag {folder}/*

# 6. Propose {folder}/numa.yaml to krew's index as plugins/numa.yaml.
"""


def commands(folder: Path, python: str) -> str:
    """Return the commands for what is in *folder*, for an image with this version of Python."""
    stems = sorted({wheel.name.partition("-")[0] for wheel in folder.glob("*.whl")})
    packages = " ".join(
        str(path)
        for stem in stems
        for path in (*sorted(folder.glob(f"{stem}-*.whl")), folder / f"{stem}-{VERSION}.tar.gz")
    )
    return _COMMANDS.format(
        version=VERSION,
        repository=REPOSITORY,
        owner=_OWNER,
        folder=folder,
        packages=packages,
        python=python,
    )

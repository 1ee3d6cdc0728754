"""How the Secrets with certificates are made, as commands for a shell with OpenSSL and kubectl.

An authority for this purpose alone issues a certificate for each side, good for that side only: who
has the server's certificate cannot call, and who may call cannot pose as the server.
"""

from __future__ import annotations

from typing import Final

_KEY: Final = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


def authority(name: str) -> str:
    """Return how an authority is made, in ``ca.crt`` and ``ca.key``.

    Strict clients, such as Python's from 3.13 on, want it to say what its key is for.
    """
    return (
        f"openssl req -x509 {_KEY} -days 3650 \\\n"
        "  -addext keyUsage=critical,keyCertSign,cRLSign \\\n"
        f"  -subj /CN={name} -keyout ca.key -out ca.crt\n"
    )


def issued(side: str, name: str) -> str:
    """Return how the authority issues a certificate to *side*, ``server`` or ``client``."""
    extensions = (
        f"basicConstraints=CA:FALSE\\nextendedKeyUsage={side}Auth\\nsubjectAltName=DNS:{name}\\n"
    )
    return (
        f"openssl req {_KEY} \\\n  -subj /CN={name} -keyout {side}.key -out {side}.csr\n"
        f"printf '{extensions}' \\\n  > {side}.ext\n"
        "openssl x509 -req -days 365 -CA ca.crt -CAkey ca.key -CAcreateserial \\\n"
        f"  -in {side}.csr -extfile {side}.ext -out {side}.crt\n"
    )


def secret(name: str, side: str, namespace: str) -> str:
    """Return how the certificate of *side* becomes a Secret."""
    return (
        f"kubectl -n {namespace} create secret generic {name} \\\n"
        f"  --from-file=ca.crt --from-file=tls.crt={side}.crt --from-file=tls.key={side}.key\n"
    )

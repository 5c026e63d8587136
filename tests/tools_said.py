"""Original messages of uv, pip and conda for packages that could not be reached.

Each was recorded with a network, a proxy or an index that failed on purpose.
"""

from __future__ import annotations

FETCH = "error: Failed to fetch: https://index.example/simple/numpy/\n"
SENT = FETCH + "  cause: error sending request for url (https://index.example/simple/numpy/)\n"
CONNECT = SENT + "  cause: client error (Connect)\n"
UNSOLVED = """error: No solution found when resolving dependencies
  cause: Because numpy was not found in the package registry and you require numpy==2.2.0, we can \
conclude that your requirements are unsatisfiable.
"""
NONE = """ERROR: Could not find a version that satisfies the requirement uv (from versions: none)
ERROR: No matching distribution found for uv
"""


def retry(why: str) -> str:
    """Return pip's warning before its last attempt, and its final error."""
    return (
        "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) "
        f"after connection broken by '{why}': /simple/uv/\n{NONE}"
    )


NEW = "<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f0b6acc1a10>: Failed to "
NEW += "establish a new connection: "
CERTIFICATE = "a certificate is not trusted"
PROXY = "the proxy does not let this through"
LATE = "the package index answers too late, or breaks off"
NOBODY = "there is no network"
REFUSED = "the package index refuses, or has not what is asked for"

# name of the case: (its meaning, the message)
SAID = {
    "uv, a certificate of a company": (
        CERTIFICATE,
        CONNECT + "  cause: invalid peer certificate: UnknownIssuer\n",
    ),
    "uv, an old certificate": (
        CERTIFICATE,
        CONNECT + "  cause: invalid peer certificate: Expired\n",
    ),
    "uv, a self-signed certificate": (
        CERTIFICATE,
        CONNECT
        + "  cause: invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))\n\nhint: Consider enabling use of "
        "system TLS certificates with the `--system-certs` command-line flag\n",
    ),
    "pip, a certificate of a company": (
        CERTIFICATE,
        retry(
            "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
            "self-signed certificate (_ssl.c:1006)'))"
        ),
    ),
    "pip, another's certificate": (
        CERTIFICATE,
        retry("SSLError(CertificateError(\"hostname '127.0.0.1' doesn't match 'localhost'\"))"),
    ),
    "pip, no file of certificates": (
        CERTIFICATE,
        "ERROR: Could not install packages due to an OSError: Could not find a suitable TLS CA certificate bundle, "
        "invalid path: /nowhere/ca.pem\n",
    ),
    "uv, a proxy that wants a password": (
        PROXY,
        CONNECT + "  cause: tunnel error: proxy authorization required\n",
    ),
    "uv, the same without TLS": (
        PROXY,
        FETCH
        + "  cause: HTTP status client error (407 Proxy Authentication Required) for url (http://index.example/)\n",
    ),
    "pip, a proxy that wants a password": (
        PROXY,
        retry(
            "ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 407 Proxy Authentication "
            "Required'))"
        ),
    ),
    "uv, a proxy that forbids": (PROXY, CONNECT + "  cause: tunnel error: unsuccessful\n"),
    "pip, a proxy that forbids": (
        PROXY,
        retry(
            "ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden'))"
        ),
    ),
    "uv, a proxy that is not there": (
        PROXY,
        CONNECT
        + "  cause: tunnel error: failed to create underlying connection\n  cause: tcp connect error\n"
        "  cause: Connection refused (os error 111)\n",
    ),
    "pip, a proxy without a name": (
        PROXY,
        retry(
            f"ProxyError('Cannot connect to proxy.', NewConnectionError('{NEW}[Errno -2] Name or service not known'))"
        ),
    ),
    "uv, a proxy of another kind that is not there": (
        PROXY,
        CONNECT
        + "  cause: error connecting to socks proxy\n  cause: SOCKS error: failed to create underlying connection\n",
    ),
    "pip, a proxy of another kind": (
        PROXY,
        "ERROR: Could not install packages due to an OSError: Missing dependencies for SOCKS support.\n",
    ),
    "pip, a proxy whose address is none": (
        PROXY,
        "ERROR: Could not install packages due to an OSError: Proxy URL had unsupported scheme nonsense, should use "
        "http:// or https://\n",
    ),
    "uv, a time-out": (LATE, SENT + "  cause: operation timed out\n"),
    "pip, a time-out": (
        LATE,
        retry(
            "ReadTimeoutError(\"HTTPConnectionPool(host='127.0.0.1', port=9408): Read timed out. (read timeout=2.0)\")"
        ),
    ),
    "uv, an index out of order": (
        LATE,
        FETCH
        + "  cause: HTTP status server error (502 Bad Gateway) for url (https://index.example/simple/numpy/)\n",
    ),
    "uv, an answer that breaks off": (
        LATE,
        FETCH
        + "  cause: error decoding response body for url (https://index.example/simple/numpy/)\n  cause: request or "
        "response body error\n  cause: error reading a body from connection\n  cause: end of file before message "
        "length reached\n",
    ),
    "uv, no network": (
        NOBODY,
        CONNECT
        + "  cause: dns error\n  cause: error resolving DNS\n  cause: failed to lookup address information: Name or "
        "service not known\n",
    ),
    "pip, no network": (
        NOBODY,
        retry(f"NewConnectionError('{NEW}[Errno -2] Name or service not known')"),
    ),
    "uv, nobody at the address": (
        NOBODY,
        CONNECT + "  cause: tcp connect error\n  cause: Connection refused (os error 111)\n",
    ),
    "conda, no network": (NOBODY, "Could not resolve host: conda.example\n"),
    "uv, an index that forbids": (
        REFUSED,
        UNSOLVED
        + "\nhint: An index (https://index.example/simple) returned a 403 Forbidden error. Check that the index "
        "URL is correct and the credentials are valid.\n",
    ),
    "uv, an index that wants a password": (
        REFUSED,
        UNSOLVED
        + "\nhint: An index URL (https://index.example/simple) could not be queried due to a lack of valid "
        "authentication credentials (401 Unauthorized)\n",
    ),
    "uv, a page to log in at": (
        REFUSED,
        "error: No solution found when resolving dependencies\n  cause: Because there is no version of numpy==2.2.0 and "
        "you require numpy==2.2.0, we can conclude that your requirements are unsatisfiable.\n",
    ),
    "uv, the same while it builds the kit": (
        REFUSED,
        "error: Failed to build `ipu-teach @ file:///kit`\n  cause: Failed to resolve requirements "
        "from `build-system.requires`\n  cause: No solution found when resolving: "
        "`hatchling>=1.27`\n  cause: Because there are no versions of hatchling and you require "
        "hatchling>=1.27, we can conclude that your requirements are unsatisfiable.\n",
    ),
    "pip, an index that forbids": (REFUSED, NONE),
    "uv, a page to log in at that speaks no TLS": (
        REFUSED,
        CONNECT + "  cause: received corrupt message of type InvalidContentType\n",
    ),
    "uv, one that ends the line": (REFUSED, CONNECT + "  cause: tls handshake eof\n"),
    "pip, a page to log in at that speaks no TLS": (
        REFUSED,
        retry(
            "SSLError(SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)'))"
        ),
    ),
}

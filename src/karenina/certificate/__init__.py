"""Certificates: proofs of what was found, for a checker that trusts nothing (`karenina.checker`)."""

from karenina.certificate.growth import NotProven, chain_of, network_of
from karenina.certificate.proof import checked_distance
from karenina.certificate.selection import selection_claims
from karenina.certificate.writing import Source, Subject, write_certificate

__all__ = [
    "NotProven",
    "Source",
    "Subject",
    "chain_of",
    "checked_distance",
    "network_of",
    "selection_claims",
    "write_certificate",
]

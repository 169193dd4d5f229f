"""Who is who on a host and at a switch's ports: the formats of all families of programs."""

from __future__ import annotations

from typing import Final

from postmortem.decoders.fabric import interface_descriptions, lldp_details
from postmortem.decoders.hosts import (
    amd_smi,
    gpu_topology,
    host_names,
    ip_json,
    ip_link,
    nvidia_query,
    nvidia_smi,
    pci_list,
    rdma,
    verbs_devices,
)

FORMATS: Final = (
    *rdma.FORMATS,
    *verbs_devices.FORMATS,
    *nvidia_query.FORMATS,
    *nvidia_smi.FORMATS,
    *gpu_topology.FORMATS,
    *amd_smi.FORMATS,
    *pci_list.FORMATS,
    *lldp_details.FORMATS,
    *interface_descriptions.FORMATS,
    *ip_json.FORMATS,
    *ip_link.FORMATS,
    *host_names.FORMATS,
)

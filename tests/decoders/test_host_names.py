"""/etc/hosts and getent: who owns an address."""

from __future__ import annotations

from decoder_samples import pick, rows, sniffed

from postmortem.decoders import sniff

HOSTS = """# written by the provisioner
127.0.0.1   localhost localhost.localdomain localhost4
127.0.1.1   node-07
::1         localhost ip6-localhost ip6-loopback
ff02::1     ip6-allnodes
fe00::0     ip6-localnet

10.0.0.11   node-01.cluster.local node-01   # rack 3
10.10.0.11  node-01-ib0
10.0.0.12\tnode-02
10.0.0.12   node-02
2001:db8::7 node-07
172.17.0.1  host.docker.internal
"""


def test_hosts_file() -> None:
    assert sniff("node-07/etc/hosts", HOSTS.encode()) == "etc_hosts"
    assert sniff("some.txt", HOSTS.encode()) == "etc_hosts"
    decoded = sniffed("etc/hosts", HOSTS, host="node-07")
    assert pick(rows(decoded, "addresses"), "address", "host", "ifname", "line") == [
        ("10.0.0.11", "node-01", None, 8),
        ("10.10.0.11", "node-01", "ib0", 9),
        ("10.0.0.12", "node-02", None, 10),
        ("2001:db8::7", "node-07", None, 12),
    ]


def test_getent() -> None:
    text = "[root@node-07 ~]# getent hosts node-01 node-02\n10.0.0.11       node-01.cluster.local node-01\n10.0.0.12       node-02\n"
    assert pick(rows(sniffed("getent.txt", text), "addresses"), "address", "host") == [
        ("10.0.0.11", "node-01"),
        ("10.0.0.12", "node-02"),
    ]


def test_a_list_of_peers_is_no_hosts_file() -> None:
    assert sniff("peers.txt", b"10.0.0.11 node-01\n10.0.0.12 node-02\n") is None
    assert sniff("etc/hosts", b"10.0.0.11 node-01\nconnected to 10.0.0.12\n") is None

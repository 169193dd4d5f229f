"""Headers of kernel ring buffers and of syslog files (reference: kernel.md section 1)."""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers.grammar import BSD, HMS, HOST, ISO, MON, REST, TAG, Header

CTIME: Final = r"(?:[^\W\d_]{1,3} )?" + MON + r" +(?P<d>[0-9]{1,2}) " + HMS + r" (?P<y>(?:19|20)[0-9]{2})"

HEADERS: Final = (
    Header("kmsg", r"^[0-9]{1,3},[0-9]+,(?P<upus>[0-9]+),[^;]*;" + REST),
    Header("kmsg", r"^\[" + CTIME + r"\] ?" + REST),
    Header("kmsg", r"^\[ *(?P<up>[0-9]+\.[0-9]+)\](?:\[ *[TC][0-9]+\])? ?" + REST),
    Header("kmsg", r"^(?:kern|user|mail|daemon|auth|syslog|local[0-7])[ .]*: ?(?:emerg|alert|crit|err|warn(?:ing)?|notice|info|debug) *: ?(?P<rest>.*)$"),
    Header("kmsg", r"^\[" + ISO + r"\]: ?" + REST),
    Header("syslog_kernel", r"^" + ISO + r" " + HOST + r" kernel: ?" + REST),
    Header("syslog_kernel", r"^" + BSD + r" +" + HOST + r" kernel: ?" + REST),
    Header("syslog_kernel", r"^" + BSD + r" +kernel: ?" + REST),
    Header("syslog_kernel", r"^" + HOST + r" kernel: ?" + REST),
    Header("syslog", r"^1 " + ISO + r" (?P<host>[^ ]+) (?P<tag>[^ ]+) (?P<pid5>[^ ]+) [^ ]+ (?:-|(?:\[[^\]]*\])+) *\x{FEFF}?(?P<rest>.*)$"),
    Header("syslog", r"^" + ISO + r" " + HOST + r" " + TAG + REST),
    Header("syslog", r"^" + BSD + r" +" + HOST + r" " + TAG + REST),
    Header("syslog", r"^" + BSD + r" +" + TAG + REST),
)

"""Headers of kernel ring buffers and of syslog files (reference: kernel.md section 1).

From the outside in: priority, date and host, `kernel:`, facility and level, uptime, caller. Each may
be missing; what stands in front of another header comes off in its own pass.
"""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers.grammar import BSD, DATE, HMS, HOST, ISO, REST, TAG, Header

# Unlike BSD's, the month may hold a digit: Chinese and Japanese locales print `3月`.
MONTH: Final = r"(?P<mon>[^\W\d_]{3,4}|[0-9]{1,2}月)\.?"
CTIME: Final = r"(?:[^\W\d_]{1,4}\.? )?" + MONTH + r" +(?P<d>[0-9]{1,2}) " + HMS + r" (?P<y>(?:19|20)[0-9]{2})"
FACILITY: Final = r"(?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])"
LEVEL: Final = r"(?:emerg|alert|crit|err|warn|warning|notice|info|debug)"
# dmesg -d prints the time since the line before, too; journalctl -o short-delta puts a blank behind it.
UPTIME: Final = r"\[ *(?P<up>[0-9]+\.[0-9]+)(?: +<[ 0-9.]+>)?\]"
WEEKDAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
FULL: Final = (
    WEEKDAY + " " + DATE + " " + HMS + r"(?:\.(?P<frac>[0-9]{1,9}))? (?P<zone>[A-Z]{2,5}|[+-][0-9]{2}(?:[0-9]{2})?)"
)
UNIX: Final = r"(?P<epoch>1[0-9]{9})\.(?P<frac>[0-9]{6})"
PCI: Final = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
INNER: Final = r"(?:<[0-9]{1,3}>)?(?:[A-Z][a-z]{2} +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}|20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[^ ]*) [^ ]+ [^ ]+: "
# First words of kernel messages, where what stands before them would not tell a kernel line from any other.
LEADS: Final = (
    r"(?:NVRM: |nvidia[-_ ]|mlx5_|pcieport |pciehp |amdgpu |\[drm|nvme |block nvme|Linux version |Kernel panic |Out of memory: "
    r"|Memory cgroup out of memory: |Killed process |INFO: task |watchdog: |rcu: |mce: |EDAC |EXT4-fs |XFS \(|BUG: |Lustre|LNet|nfs: )"
)

HEADERS: Final = (
    # dmesg -e / --reltime: a date without year and seconds, then deltas.
    Header("kmsg", r"^\[(?P<mon>[A-Z][a-z]{2}) ?(?P<d>[0-9]{1,2}) (?P<hms>[0-9]{2}:[0-9]{2})\] " + REST),
    Header("kmsg", r"^\[ *[+<] *[0-9]+\.[0-9]+>?\] " + REST),
    Header("kmsg", r"^[0-9]{1,3},[0-9]+,(?P<upus>[0-9]+),[^;]*;" + REST),
    Header("kmsg", r"^\[" + CTIME + r"\] ?" + REST),
    Header("kmsg", r"^ ?" + UPTIME + r"(?: ?\[ *[TC][0-9]+\])? ?" + REST),
    # dmesg -x, with dmesg's own times or none; talosctl puts the node's address before it.
    Header("kmsg", r"^" + FACILITY + r" *: ?" + LEVEL + r" *: ?" + ISO + r" " + REST),
    Header("kmsg", r"^" + FACILITY + r" *: ?" + LEVEL + r" *: ?" + REST),
    Header("kmsg", r"^" + HOST + r": (?P<rest>" + FACILITY + r" *: ?" + LEVEL + r" *: ?.*)$"),
    Header("kmsg", r"^\[" + ISO + r"\]: ?" + REST),
    # dmesg --time-format iso: nothing else prints a comma and a zone without a blank. A driver and its device are no host and tag.
    Header("kmsg", r"^" + DATE + "T" + HMS + r",(?P<frac>[0-9]{6})(?P<zone>[+-][0-9]{2}:?[0-9]{2}) " + REST),
    Header("kmsg", r"^" + ISO + r" (?P<rest>[A-Za-z][A-Za-z0-9_-]* " + PCI + r"[: ].*)$"),
    Header("kmsg", r"^[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)? +(?:kernel: )?(?P<rest>" + LEADS + r".*)$"),
    Header("kmsg", r"^\[ *(?P<up>[0-9]+)\] (?P<rest>" + LEADS + r".*)$"),
    Header("kmsg", r"^\[\.\.\.\] ?" + REST),
    # What stands before the stamp: a shell prompt of the serial console, an exporter's field, a relay's name.
    Header("console", r"^(?:[^ \[]{1,80}[#$>]|[A-Za-z0-9][A-Za-z0-9.-]* login:) (?P<rest>\[ *[0-9]+\.[0-9]{6}\].*)$"),
    Header("kmsg", r"^MESSAGE=" + REST),
    Header("kmsg", r'^"(?:msg|message)": ?"(?P<rest>' + LEADS + r'.*?)"?,?$'),
    Header("relay", r"^(?:\[[A-Za-z0-9_-]+\] )*(?:GPU-[0-9a-f-]+: )?XID: (?P<rest>NVRM: .*)$"),
    # A relay's stamp and name before those of the host.
    Header("relay", r"^" + ISO + r" " + HOST + r":? (?P<rest>" + INNER + r".*)$"),
    Header("relay", r"^" + BSD + r" " + HOST + r":? (?P<rest>" + INNER + r".*)$"),
    Header("syslog_kernel", r"^" + ISO + r" " + HOST + r" kernel: ?" + REST),
    # busybox and some relays name facility and level before the tag.
    Header("syslog_kernel", r"^" + BSD + r" +" + HOST + r" (?:" + FACILITY + r"\." + LEVEL + r" )?kernel: ?" + REST),
    # journalctl -o short-full and short-unix.
    Header("syslog_kernel", r"^" + FULL + r" " + HOST + r" kernel: ?" + REST),
    Header("syslog_kernel", r"^" + UNIX + r" " + HOST + r" kernel: ?" + REST),
    Header("syslog_kernel", r"^" + BSD + r" +kernel: ?" + REST),
    Header("syslog_kernel", r"^" + MONTH + r" +(?P<d>[0-9]{1,2}) " + HMS + r" +(?:" + HOST + r" )?kernel: ?" + REST),
    Header("syslog_kernel", r"^" + CTIME + r" " + FACILITY + r"\." + LEVEL + r" kernel: ?" + REST),
    Header("syslog_kernel", r"^" + HOST + r" kernel: ?" + REST),
    Header("syslog_kernel", r"^kernel: ?" + REST),
    Header(
        "syslog",
        r"^1 "
        + ISO
        + r" (?P<host>[^ ]+) (?P<tag>[^ ]+) (?P<pid5>[^ ]+) [^ ]+ (?:-|(?:\[[^\]]*\])+) *\x{FEFF}?(?P<rest>.*)$",
    ),
    Header("syslog", r"^" + ISO + r" " + HOST + r" " + TAG + REST),
    Header("syslog", r"^" + BSD + r" +" + HOST + r" (?:" + FACILITY + r"\." + LEVEL + r" )?" + TAG + REST),
    Header("syslog", r"^" + FULL + r" " + HOST + r" " + TAG + REST),
    Header("syslog", r"^" + UNIX + r" " + HOST + r" " + TAG + REST),
    Header("syslog", r"^" + BSD + r" +" + TAG + REST),
)

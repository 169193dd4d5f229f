"""Headers of switch logs, of their relays and of fabric managers (reference: switch.md section 2).

They are tried before all others, so each is tied to something that only a switch prints: a Cisco
mnemonic, a vendor's module name, a severity word before the tag, a named daemon. Two headers in one
line (a relay's and the device's) come off one after the other.
"""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers.grammar import BSD, DATE, HMS, HOST, ISO, MON, REST, TAG, Header

YEAR: Final = r"(?P<y>(?:19|20)[0-9]{2})"
DAY: Final = r"(?P<d>[0-9]{1,2})"
DOT: Final = r"(?:\.(?P<frac>[0-9]{1,9}))?"
WORD: Final = r"(?P<zone>[A-Z]{2,6}|(?:UTC|GMT)?[+-][0-9]{2}:?[0-9]{2})"
NODE: Final = r"(?:RP|LC|RSP|DRP|SP|RPC?|B?[A-Z]{2})/[0-9A-Z]+/[0-9A-Z]+(?:/[0-9A-Z]+)?"
MNEMONIC: Final = r"%{1,2}[A-Z][A-Za-z0-9_/-]*-[0-7]-[A-Za-z0-9_]+ ?:"
CISCO: Final = r"(?P<rest>(?:%|last message repeated ).*)$"
MODULE: Final = r"(?P<rest>(?:%%[0-9]{2})?[A-Z][A-Z0-9_]*/[0-7]/[A-Za-z][A-Za-z0-9_ ]*(?:\([a-z]+\))?(?:\[[0-9]+\])?:.*)$"
DAEMONS: Final = (
    r"(?:switchd|ptmd|mstpd|clagd|watchquagga|watchfrr|cumulus-core|cl-support|bgpd|zebra|ospfd|bfdd|craftd|alarmd|chassisd|mib2d|rpd|"
    r"lacpd|eswd|l2cpd|l2ald|dcd|pfed|cosd|xntpd|xcvrd|orchagent|syncd|psud|thermalctld|portmgrd|OpenSM|opensm|dn_alm)"
)
SONIC_LEVEL: Final = r"(?:EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO|DEBUG)"
SONIC_TAG: Final = r"(?P<tag>[A-Za-z0-9_.-]+(?:#[A-Za-z0-9_./ -]+?)?)(?:\[(?P<pid>[0-9]+)\])?: ?"
MON_ANY: Final = r"[A-Z][a-z]{2}"

_COLLECTORS: Final = (
    Header("pri", r"^<[0-9]{1,3}>: ?(?P<rest>(?:19|20)[0-9]{2} " + MON_ANY + r" .*)$"),
    Header("pri", r"^<[0-9]{1,3}> +(?P<rest>" + MON_ANY + r" +[0-9]{1,2} .*)$"),
    Header(
        "grep",
        r"^(?:[A-Za-z0-9_.-]*/)+[A-Za-z0-9_.-]+:(?P<rest>(?:<[0-9]{1,3}>|(?:19|20)[0-9]{2} )?" + MON_ANY + r" +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}.*)$",
    ),
    Header(
        "separated",
        r"^(?P<host>[^ |]+)\|\|[^|]*\|\|[^|]*\|\|[^|]*\|\|(?P<tag>[^|]*)\|\|" + DATE + " " + HMS + r"\|\|(?P<rest>.*?)(?:\|\|[^|]*)?$",
    ),
    Header("repeat", r"^message repeated [0-9]+ times?: \[ ?(?P<rest>.*?)\]?$"),
)

_RELAYS: Final = (
    # The device's own date follows the relay's: `Mon D HH:MM:SS relay [: |seq: ]date …`.
    Header("relay", "^" + BSD + " +" + HOST + r" (?:: ?)?(?P<rest>(?:19|20)[0-9]{2} " + MON_ANY + r" +[0-9]{1,2} [0-9]{2}:[0-9]{2}:.*%.*)$"),
    Header("relay", "^" + BSD + " +" + HOST + r" (?:: ?)?(?P<rest>(?:[0-9]+: )?[*.]?" + MON_ANY + r" +[0-9]{1,2} (?:[0-9]{4} )?[0-9]{2}:[0-9]{2}:.*[%/].*)$"),
    Header("relay", "^" + BSD + " +" + HOST + r":? (?P<rest>(?:[0-9]+: )?" + NODE + r":.*%.*)$"),
    Header("relay", "^" + ISO + " " + HOST + r" (?:: ?)?(?P<rest>(?:[0-9]+: )?[*.]?(?:[0-9]{4} )?" + MON_ANY + r" +[0-9]{1,2} .*%.*)$"),
    Header("relay", "^" + ISO + " " + HOST + r" (?:: ?)?(?P<rest>(?:[0-9]+: )?(?:" + NODE + r":|%).*%?.*)$"),
)

_CISCO: Final = (
    Header("nxos", "^" + YEAR + " " + MON + " +" + DAY + " " + HMS + DOT + "(?: +" + HOST + r")? +(?:%\$ [^%]* %\$ )?" + CISCO),
    Header("nxos", r"^(?:" + HOST + r" ?: ?|: ?)?" + YEAR + " " + MON + " +" + DAY + " " + HMS + DOT + "(?: " + WORD + r")? ?: " + CISCO),
    Header("eos", "^" + YEAR + " " + MON + " +" + DAY + " " + HMS + DOT + " " + WORD + " " + HOST + r" (?P<tag>[A-Za-z][A-Za-z0-9_-]*): (?P<rest>%.*)$"),
    # `*` and `.` before the month: the clock was never set, or lost its source; its zone is not worth keeping.
    Header(
        "ios",
        r"^(?:: ?)?(?:[0-9]{1,10}: )?(?:(?P<host>[A-Za-z0-9][A-Za-z0-9_.:-]*): )?(?:[0-9]{1,10}: )?[*.]" + MON + " +" + DAY + r" (?:[0-9]{4} )?" + HMS + DOT
        + r"(?: [A-Z]{2,6}(?:[+-][0-9:]+)?)? ?: " + CISCO,
    ),
    Header(
        "ios",
        r"^(?:: ?)?(?:[0-9]{1,10}: )?(?:(?P<host>[A-Za-z0-9][A-Za-z0-9_.:-]*): )?(?:[0-9]{1,10}: )?" + MON + " +" + DAY + " (?:" + YEAR + " )?" + HMS + DOT
        + "(?: " + WORD + r")? ?: " + CISCO,
    ),
    Header("ios", r"^(?:: ?)?[0-9]{1,10}: (?:(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*): )?(?:[0-9]{1,10}: )?(?P<rest>" + MNEMONIC + ".*)$"),
    # Uptime, or the rest of a date whose beginning is lost: no time at all.
    Header("ios", r"^[*.]?(?:[0-9]+[ydhmw][0-9]+[ydhmw]|[0-9]{1,4}(?::[0-9]{2}){1,2})(?:\.[0-9]+)?: (?P<rest>" + MNEMONIC + ".*)$"),
    Header(
        "iosxr",
        r"^(?:[A-Z]+/[^ :]*:[^ #]*#)?(?:[0-9]{1,10}: )?(?:(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*):? )?" + NODE + r": ?(?:" + YEAR + " )?" + MON + " +" + DAY + " " + HMS
        + DOT + "(?: " + WORD + r")? ?: (?P<tag>[^ :\[\]]+)\[(?P<pid>[0-9]+)\]: (?P<rest>%.*)$",
    ),
    Header("cisco", "^" + BSD + " +" + HOST + r":? (?P<rest>" + MNEMONIC + ".*)$"),
    Header("agent", r"^(?P<tag>[A-Za-z][A-Za-z0-9_-]*)(?:\[(?P<pid>[0-9]+)\])?: (?P<rest>" + MNEMONIC + ".*)$"),
    Header("unit", r"^%(?:RPM|STKUNIT|LC|CP|MMRP)[0-9A-Za-z:_-]* (?P<rest>" + MNEMONIC + ".*)$"),
)

_FACTORY: Final = r"(?:Jan +1|Apr +26) [0-9]{2}:[0-9]{2}:[0-9]{2}(?::[0-9]{3})? (?:1970|2000|2013)"
_VENDORS: Final = (
    # Dates that a device shows whose clock nobody set: no time.
    Header("comware", "^%?" + _FACTORY + r" (?P<host>[^%/]+?) +" + MODULE),
    Header("comware", "^%?" + MON + " +" + DAY + " " + HMS + r"(?::(?P<frac>[0-9]{3}))? " + YEAR + r" (?P<host>[^%/]+?) +" + MODULE),
    Header(
        "vrp", "^" + MON + " +" + DAY + " " + YEAR + " " + HMS + DOT + r"(?P<zone>[+-][0-9]{2}:[0-9]{2})?(?: DST)? (?P<host>[^%/ ]+) +" + MODULE
    ),
    Header("vrp", r"^(?P<y>20[0-9]{2})-(?P<mo>[0-9]{1,2})-(?P<d>[0-9]{1,2}) " + HMS + DOT + r"(?:\.[0-9]+)?(?: DST)? " + HOST + " +" + MODULE),
    Header("vrp", "^" + BSD + " +" + HOST + " (?P<rest>%%[0-9]{2}[A-Z].*)$"),
    Header("junos", r"^1 " + ISO + r" (?P<host>[^ ]+) (?P<tag>[^ ]+) (?P<pid5>[^ ]+) (?P<rest>[A-Z][A-Z0-9_]+ \[junos@.*)$"),
    Header("junos", "^" + BSD + " +" + HOST + r" (?P<rest>fpc[0-9]+ .*)$"),
    Header("junos", "^" + BSD + r" +(?P<rest>fpc[0-9]+ .*)$"),
    Header("alcatel", "^" + BSD + " +" + HOST + r" (?P<rest>[A-Z]+\([0-9]+\) (?:Data|Info): .*)$"),
    Header("ironware", "^" + MON + " +" + DAY + " " + HMS + r":[A-Z]:(?P<rest>.*)$"),
    Header("xos", r"^(?P<mo>[0-9]{2})/(?P<d>[0-9]{2})/" + YEAR + " " + HMS + DOT + r" (?P<rest><[A-Za-z]+:[A-Za-z0-9_.]+> .*)$"),
    Header("glog", r"^(?P<lvl>V)(?P<md>[0-9]{4}) " + HMS + DOT + r" +(?:(?P<tid>[0-9]+) )?(?P<src>[^ \]]+:[0-9]+)\] ?" + REST),
    Header("astaro", r"^(?P<y>20[0-9]{2}):(?P<mo>[0-9]{2}):(?P<d>[0-9]{2})-" + HMS + " " + HOST + " " + TAG + REST),
    Header("fastpath", "^" + BSD + " +" + HOST + r" (?P<tag>[A-Z][A-Z0-9_]+)\[[A-Za-z][A-Za-z0-9_]*\]: (?P<rest>[a-z0-9_]+\.c\([0-9]+\) .*)$"),
    Header("daemon", r"^(?P<tag>" + DAEMONS + r")(?:\[(?P<pid>[0-9]+)\])?: ?" + REST),
)

_SONIC: Final = (
    Header("syslog_kernel", "^(?:" + YEAR + " )?" + BSD + " " + HOST + " " + SONIC_LEVEL + " kernel: ?" + REST),
    Header("sonic", "^(?:" + YEAR + " )?" + BSD + " " + HOST + " " + SONIC_LEVEL + " " + SONIC_TAG + REST),
    Header("sonic", "^" + ISO + " " + HOST + r"(?: +[^ ]+)? " + SONIC_LEVEL + " " + SONIC_TAG + REST),
    Header("sonic", "^" + HOST + " " + SONIC_LEVEL + r" (?P<tag>[A-Za-z0-9_.-]+#[A-Za-z0-9_.-]+)(?:\[(?P<pid>[0-9]+)\])?: ?" + REST),
    Header(
        "sonic",
        "^(?:" + MON_ANY + r" +[0-9]{1,2} [0-9:.]+ )?id=firewall time=\"" + DATE + " " + HMS + r'" fw="(?P<host>[^"]+)" pri=[0-7] msg="(?P<rest>.*?)"?$',
    ),
    Header("sonic", r"^(?P<tag>[a-z0-9_]+#[A-Za-z0-9_.-]+)(?:\[(?P<pid>[0-9]+)\])?: ?" + REST),
    Header("sairedis", "^" + DATE + r"\." + HMS + DOT + r"\|(?P<rest>n\|port_state_change\|.*)$"),
)

_FABRIC: Final = (
    Header("opensm", r"^" + MON + r" +(?P<d>[0-9]{1,2}) " + HMS + r" (?P<frac>[0-9]{6}) \[[0-9A-Fa-f]+\] 0x[0-9A-Fa-f]+ -> " + REST),
    Header("ufm", r"^(?:(?:CRITICAL|MAJOR|MINOR|WARNING|INFO) - )?" + ISO + r" (?P<rest>\[[0-9]+\] \[[0-9]+\] (?:CRITICAL|MAJOR|MINOR|WARNING|INFO) \[.*)$"),
)

# Collectors after the rest: the node of an IOS XR line looks like a path that grep printed.
HEADERS: Final = (*_FABRIC, *_SONIC, *_RELAYS, *_CISCO, *_VENDORS, *_COLLECTORS)

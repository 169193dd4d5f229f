"""Headers of switch logs, of their relays and of fabric managers (reference: switch.md section 2).

They are tried before all others, so each is tied to something that only a switch prints: a Cisco
mnemonic, a vendor's module name, a severity word before the tag, a named daemon. Two headers in one
line (a relay's and the device's) come off one after the other.
"""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers.grammar import DATE, HMS, HOST, ISO, REST, TAG, Header

# Switches print English months; a class of ASCII letters compiles several times faster than one of all letters.
MON: Final = r"(?P<mon>[A-Z][a-z]{2})"
DAY: Final = r"(?P<d>[0-9]{1,2})"
YEAR: Final = r"(?P<y>(?:19|20)[0-9]{2})"
CLOCK: Final = HMS + r"(?:\.(?P<frac>[0-9]{1,9}))?"
MON_DAY: Final = MON + " +" + DAY
BSD: Final = MON_DAY + " " + CLOCK
YEAR_FIRST: Final = YEAR + " " + BSD
YEAR_MAYBE: Final = MON_DAY + " (?:" + YEAR + " )?" + CLOCK
SOME_DAY: Final = r"[A-Z][a-z]{2} +[0-9]{1,2}"
SOME_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
ZONE_WORD: Final = r"(?P<zone>[A-Za-z]{2,6}|(?:UTC|GMT)?[+-][0-9]{1,2}(?::?[0-9]{2})?)"
# A word that stays the same in summer on many devices: a relay's numeric offset is more certain.
WINTER: Final = r"(?:[CEMW]ET|[ECMP]ST|AEST)"
OFFSET: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?P<zone>[+-][0-9]{2}:?[0-9]{2})"
# A name or an address; a mere number is a sequence number.
DEVICE: Final = r"(?:[0-9]*[A-Za-z_][A-Za-z0-9_.:-]*|[0-9]+[.:][A-Za-z0-9_.:-]*)"
RELAYED: Final = f"(?P<host>{DEVICE})"
SEQUENCE: Final = r"(?:[0-9]{1,10}: )?"
NODE: Final = r"(?:[A-Z]{2,4}|[0-9]{1,2})/[0-9A-Z]+/[0-9A-Z]+(?:/[0-9A-Z]+)?"
MNEMONIC: Final = r"%{1,2}[A-Z][A-Za-z0-9_/-]*-[0-7A-Z]-[A-Za-z0-9_-]+ ?:"
CISCO: Final = r"(?P<rest>(?:%|last message repeated |NTP Core \().*)$"
PID: Final = r"(?:\[(?P<pid>[0-9]+)\])?"
MODULE: Final = r"(?P<rest>(?:%%[0-9]{2})?(?:[A-Z][A-Z0-9_]*|\[[A-Z0-9]+\])/[0-7]/[A-Za-z][A-Za-z0-9_ ]*(?:\([a-z]+\))?(?:\[[0-9]+\])?:.*)$"
DAEMONS: Final = (
    "(?:switchd|ptmd|mstpd|clagd|watchquagga|watchfrr|cumulus-core|cl-support|bgpd|zebra|ospfd|bfdd|craftd|alarmd|"
    "chassisd|mib2d|rpd|lacpd|eswd|l2cpd|l2ald|dcd|pfed|cosd|xntpd|xcvrd|orchagent|syncd|psud|thermalctld|portmgrd|"
    "OpenSM|opensm|dn_alm)"
)
JUNOS_FACILITY: Final = "(?:AUTH|AUTHORIZATION|CHANGE|CONFLICT|CRON|DAEMON|DFC|EXTERNAL|FIREWALL|FTP|INTERACT|KERN|NTP|PFE|SECURITY|USER|LOCAL[0-7])"
SONIC_LEVEL: Final = "(?:EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO|DEBUG)"
SONIC_TAG: Final = r"(?P<tag>[A-Za-z0-9_.-]+(?:#[A-Za-z0-9_./ -]+?)?)" + PID + ": ?"
SONIC_CONTAINER: Final = r"#[A-Za-z0-9_.-]+)" + PID + ": ?"
UFM_LEVEL: Final = "(?:CRITICAL|MAJOR|MINOR|WARNING|INFO)"

_FABRIC: Final = (
    Header("opensm", "^" + BSD.replace(CLOCK, HMS) + r" (?P<frac>[0-9]{6}) \[[0-9A-Fa-f]+\] 0x[0-9A-Fa-f]+ -> " + REST),
    Header("ufm", f"^(?:{UFM_LEVEL} - )?{ISO}" + r" (?P<rest>\[[0-9]+\] \[[0-9]+\] " + UFM_LEVEL + r" \[.*)$"),
)

_SONIC: Final = (
    Header("relay", f"^{BSD} +{HOST} (?P<rest>(?:(?:19|20)[0-9]{{2}} )?{SOME_DAY} [0-9:.]+ [^ ]+ {SONIC_LEVEL} .*)$"),
    Header("syslog_kernel", f"^(?:{YEAR} )?{BSD} {HOST} {SONIC_LEVEL} kernel: ?{REST}"),
    # A container's supervisord stamps its own lines.
    Header(
        "sonic",
        f"^(?:{YEAR} )?{BSD} {HOST} {SONIC_LEVEL} (?P<tag>[a-z0-9_.-]+#/?supervisord){PID}:? (?P<rest>20[0-9]{{2}}-.*)$",
    ),
    Header("sonic", f"^(?:{YEAR} )?{BSD} {HOST} {SONIC_LEVEL} {SONIC_TAG}{REST}"),
    Header("sonic", f"^{ISO} {HOST}(?: +[^ ]+)? {SONIC_LEVEL} {SONIC_TAG}{REST}"),
    Header("sonic", f"^{HOST} {SONIC_LEVEL} (?P<tag>[A-Za-z0-9_.-]+{SONIC_CONTAINER}{REST}"),
    Header("sonic", f"^(?P<tag>[a-z0-9_]+{SONIC_CONTAINER}{REST}"),
    Header("supervisord", f"^{ISO} (?:CRIT|ERRO|WARN|INFO) (?P<rest>(?:exited|spawned|success|gave up|stopped): .*)$"),
    Header(
        "sonic",
        f'^(?:{SOME_DAY} [0-9:.]+ )?id=firewall time="{DATE} {HMS}" fw="(?P<host>[^"]+)" '
        r'pri=[0-7] msg="(?P<rest>.*?)"?$',
    ),
    Header("sairedis", rf"^{DATE}\.{CLOCK}" + r"\|(?P<rest>n\|port_state_change\|.*)$"),
)

# The device's own date follows the relay's: `Mon D HH:MM:SS relay [: |device: ][seq: ]date …`.
NEXT: Final = f"(?:: ?|{DEVICE} ?: )?{SEQUENCE}"
_RELAYS: Final = (
    Header(
        "relay",
        f"^{SEQUENCE}{BSD} +{HOST} (?:: ?)?(?P<rest>(?:{DEVICE}: )?(?:19|20)[0-9]{{2}} {SOME_DAY} {SOME_CLOCK}.*%.*)$",
    ),
    Header(
        "relay",
        f"^{SEQUENCE}{BSD} +{HOST} (?:: ?)?(?P<rest>{NEXT}[*.]?{SOME_DAY} (?:[0-9]{{4}} )?{SOME_CLOCK}.*[%/].*)$",
    ),
    Header("relay", f"^{SEQUENCE}{BSD} +{HOST}:? (?P<rest>{SEQUENCE}(?:{DEVICE}:? )?{NODE}:.*%.*)$"),
    Header("nxos", f"^{OFFSET} {HOST} (?:: ?)?{YEAR_FIRST} {WINTER} ?: {CISCO}"),
    Header("ios", f"^{OFFSET} {HOST} (?:: ?)?{SEQUENCE}{YEAR_MAYBE} {WINTER} ?: {CISCO}"),
    Header("relay", f"^{ISO} {HOST} (?:: ?)?(?P<rest>{NEXT}[*.]?(?:[0-9]{{4}} )?{SOME_DAY} .*%.*)$"),
    Header("relay", f"^{ISO} {HOST} (?:: ?)?(?P<rest>{SEQUENCE}(?:{NODE}:.*%|%).*)$"),
    # Kiwi forwards RFC 5424 without structured data.
    Header("relay", f"^Original Address=(?P<host>[^ ]+) 1 {ISO} (?:[^ ]+ ){{4}}(?P<rest>{DEVICE}: .*%.*)$"),
)

_CISCO: Final = (
    Header("nxos", f"^{YEAR_FIRST}(?: +{HOST})? +" + r"(?:%\$ [^%]* %\$ )?" + CISCO),
    Header("nxos", f"^(?:{HOST} ?: ?|: ?)?{YEAR_FIRST}(?: {ZONE_WORD})? ?: {CISCO}"),
    Header("eos", f"^{YEAR_FIRST} {ZONE_WORD} {HOST} (?P<tag>[A-Za-z][A-Za-z0-9_-]*){PID}: (?P<rest>%.*)$"),
    Header("nxos", f"^{YEAR_FIRST} {ZONE_WORD} {HOST}:? {CISCO}"),
    # `*` and `.` before the month: the clock was never set, or lost its source; its zone is not worth keeping.
    Header(
        "ios",
        f"^(?:: ?)?{SEQUENCE}(?:{RELAYED}: )?{SEQUENCE}[*.]{YEAR_MAYBE}"
        f"(?: [A-Za-z]{{2,6}}(?:[+-][0-9:]+)?)? ?: {CISCO}",
    ),
    Header("ios", f"^(?:: ?)?{SEQUENCE}(?:{RELAYED}: )?{SEQUENCE}{YEAR_MAYBE}(?: {ZONE_WORD})? ?: {CISCO}"),
    Header(
        "ios",
        f"^(?:: ?|[0-9]{{1,10}}: )(?P<host>[0-9]*[A-Za-z_.][A-Za-z0-9_.-]*) {SEQUENCE}{YEAR_MAYBE}(?: {ZONE_WORD})? ?: {CISCO}",
    ),
    Header("ios", f"^(?:: ?)?[0-9]{{1,10}}: (?:{HOST}: )?{SEQUENCE}(?P<rest>{MNEMONIC}.*)$"),
    # Uptime, or the rest of a date whose beginning is lost: no time at all.
    Header(
        "ios",
        rf"^(?:: ?)?{SEQUENCE}(?:{RELAYED}: )?{SEQUENCE}[*.]?"
        r"(?:[0-9]+[ydhmw][0-9]+[ydhmw]|[0-9]{1,4}(?::[0-9]{2}){1,2})(?:\.[0-9]+)?: "
        f"(?P<rest>{MNEMONIC}.*)$",
    ),
    # A terminal's prompt may be glued in front.
    Header(
        "iosxr",
        rf"^(?:{NODE}:[^ #]*#)?{SEQUENCE}(?:{HOST}:? )?{NODE}: ?(?:{YEAR} )?{BSD}(?: {ZONE_WORD})? ?: "
        r"(?P<tag>[^ :\[\]]+)\[(?P<pid>[0-9]+)\]: (?P<rest>%.*)$",
    ),
    Header("cisco", f"^{YEAR_MAYBE} +{HOST}(?: {ZONE_WORD})?:? (?P<rest>{MNEMONIC}.*)$"),
    Header("agent", f"^(?P<tag>[A-Za-z][A-Za-z0-9_-]*){PID}: (?P<rest>{MNEMONIC}.*)$"),
    Header("unit", f"^%(?:RPM|STKUNIT|LC|CP|MMRP)[0-9A-Za-z:_-]* (?P<rest>{MNEMONIC}.*)$"),
)

_FACTORY: Final = r"(?:Jan +1|Apr +26) [0-9]{2}:[0-9]{2}:[0-9]{2}(?::[0-9]{3})? (?:1970|2000|2013)"
_VENDORS: Final = (
    # Dates that a device shows whose clock nobody set: no time.
    Header("comware", f"^(?:%@[0-9]+)?%?{_FACTORY} (?P<host>[^%/]+?) +{MODULE}"),
    Header("comware", f"^(?:%@[0-9]+)?%?{MON_DAY} {HMS}(?::(?P<frac>[0-9]{{3}}))? {YEAR} (?P<host>[^%/]+?) +{MODULE}"),
    Header(
        "vrp",
        f"^{MON_DAY} {YEAR} {CLOCK}(?P<zone>[+-][0-9]{{2}}:[0-9]{{2}})?(?: DST)? (?P<host>[^%/ ]+) +{MODULE}",
    ),
    Header("vrp", rf"^{DATE} {CLOCK}(?:\.[0-9]+)?(?: DST)? {HOST} +{MODULE}"),
    Header("vrp", f"^{BSD}" + r" +(?P<host>[A-Za-z0-9][^%/:\[\]]*?) +(?P<rest>%%[0-9]{2}[A-Z].*)$"),
    Header("vrp", f"^#[0-9]+/[a-z]+/[A-Za-z0-9_]+/[A-Za-z]+/occurredTime:{DATE} {HMS}/{REST}"),
    Header(
        "junos",
        f"^1 {ISO} (?P<host>[^ ]+) (?P<tag>[^ ]+) (?P<pid5>[^ ]+) "
        + r"(?P<rest>[A-Z][A-Z0-9]*_[A-Z0-9_]+ (?:\[junos@|- ).*)$",
    ),
    # `time-format year millisecond` and `explicit-priority`.
    Header("junos", f"^{BSD} {YEAR} +{HOST} +(?:(?P<tag>[A-Za-z/][A-Za-z0-9_./-]*){PID})? ?: +{REST}"),
    Header(
        "junos",
        f"^{BSD} +{HOST} +(?:(?P<tag>[A-Za-z/][A-Za-z0-9_./-]*){PID})? ?: +(?P<rest>%{JUNOS_FACILITY}-[0-7].*)$",
    ),
    Header("junos", f"^%{JUNOS_FACILITY}-[0-7]: +{REST}"),
    # Cisco's SYSTEM_MSG has the same facilities.
    Header("junos", f"^%{JUNOS_FACILITY}-[0-7]-(?P<rest>(?:[A-RT-Z]|S[A-XZ])[A-Z0-9]*_[A-Z0-9_]+: .*)$"),
    Header("junos", f"^{BSD} +{HOST} (?P<rest>fpc[0-9]+ .*)$"),
    Header("junos", f"^{BSD} +(?P<rest>fpc[0-9]+ .*)$"),
    # chassisd's own file names neither host nor daemon.
    Header("junos", f"^{BSD} +(?P<rest>[A-Z][A-Z0-9]*D_[A-Z0-9_]+: .*)$"),
    Header("srlinux", f"^{ISO} {HOST} [a-z0-9]+" + r"\|[A-Z]{3,6} " + f"(?P<tag>[a-z][a-z0-9_]+): {REST}"),
    Header("alcatel", f"^{BSD} +{HOST} " + r"(?P<rest>[A-Z]+\([0-9]+\) (?:Data|Info): .*)$"),
    Header("ironware", f"^{MON_DAY} {HMS}:[A-Z]:{REST}"),
    Header("xos", f"^(?P<mo>[0-9]{{2}})/{DAY}/{YEAR} {CLOCK} (?P<rest><[A-Za-z]+:[A-Za-z0-9_.]+> .*)$"),
    Header("glog", rf"^(?P<lvl>V)(?P<md>[0-9]{{4}}) {CLOCK} +(?:(?P<tid>[0-9]+) )?(?P<src>[^ \]]+:[0-9]+)\] ?{REST}"),
    Header("astaro", f"^(?P<y>20[0-9]{{2}}):(?P<mo>[0-9]{{2}}):(?P<d>[0-9]{{2}})-{HMS} {HOST} {TAG}{REST}"),
    Header(
        "fastpath",
        f"^{BSD} +{HOST} "
        r"(?P<tag>[A-Z][A-Z0-9_]+)\[[A-Za-z][A-Za-z0-9_]*\]: (?P<rest>[a-z0-9_]+\.c\([0-9]+\) .*)$",
    ),
    Header("daemon", f"^(?P<tag>{DAEMONS}){PID}: ?{REST}"),
)

_COLLECTORS: Final = (
    Header("pri", rf"^<[0-9]{{1,3}}>: ?(?P<rest>(?:19|20)[0-9]{{2}} {SOME_DAY} .*)$"),
    Header("pri", f"^<[0-9]{{1,3}}> +(?P<rest>{SOME_DAY} .*)$"),
    Header(
        "grep",
        r"^(?:[A-Za-z0-9_.-]*/)+[A-Za-z0-9_.-]+:(?P<rest>(?:<[0-9]{1,3}>|(?:19|20)[0-9]{2} )?"
        f"{SOME_DAY} {SOME_CLOCK}.*)$",
    ),
    Header(
        "separated",
        r"^(?P<host>[^ |]+)(?:\|\|[^|]*){3}\|\|(?P<tag>[^|]*)\|\|"
        + f"{DATE} {HMS}"
        + r"\|\|(?P<rest>.*?)(?:\|\|[^|]*)?$",
    ),
    Header("repeat", f"^{BSD} +{HOST} " + r"(?P<rest>message repeated [0-9]+ times?: \[.*)$"),
    Header("repeat", r"^message repeated (?P<times>[0-9]{1,9}) times?: \[ ?(?P<rest>.*?)\]?$"),
)

# Collectors after the rest: the node of an IOS XR line looks like a path that grep printed.
HEADERS: Final = (*_FABRIC, *_SONIC, *_RELAYS, *_CISCO, *_VENDORS, *_COLLECTORS)

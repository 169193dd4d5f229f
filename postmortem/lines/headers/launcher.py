"""What launchers, containers and log collectors put before a line."""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers.grammar import BSD, HMS, HOST, ISO, MON, REST, ZONE, Header

HEADERS: Final = (
    # What was typed at the terminal stands in front of the line that it made the program print.
    Header("typed", r"^(?:\^[A-Z]){1,8}(?P<rest>[^ ^].*)$"),
    Header("rank", r"^\[rank(?P<rank>[0-9]+)\]: ?" + REST),
    Header("role", r"^\[(?:default|trainer|worker|actor|node|role)_?(?P<lrank>[0-9]+)(?:\|[0-9]+)?\]: ?" + REST),
    Header("torchx", r"^[a-z_]+/[0-9]+ \[(?P<lrank>[0-9]+)\]: ?" + REST),
    # Open MPI's --tag-output; since 5 also --output tag-detailed and tag-fullname; SageMaker adds the host's name.
    Header(
        "mpi",
        r"^\[(?:[A-Za-z0-9_.-]+@)?[0-9]+,(?:mpirank:)?(?P<rank>[0-9]+)(?:,[a-z]+-[0-9]+)?\](?:\["
        + HOST
        + r":(?P<pid>[0-9]+)\])?<std(?:out|err)>: ?"
        + REST,
    ),
    Header("ray", r"^\((?:[A-Za-z_][A-Za-z0-9_.]* )?pid=(?P<pid>[0-9]+)(?:, ip=(?P<ip>[0-9.]+))?\) ?" + REST),
    # SkyPilot names the node, its rank and, on several nodes, its address; vLLM its worker's part or rank.
    Header(
        "ray",
        r"^\((?:[A-Za-z_][A-Za-z0-9_.]*)(?: [A-Z]{2}[0-9]+)?(?:[ ,]+rank=(?P<rank>[0-9]+))?(?:,? pid=(?P<pid>[0-9]+))(?:, ip=(?P<ip>[0-9.]+))?\) ?"
        + REST,
    ),
    Header("cri", r"^" + ISO + r" (?:stdout|stderr) [FP] " + REST),
    Header("srun", r"^[0-9]{1,6}: (?P<rest> *[^ ].*)$"),
    Header(
        "pdsh",
        r"^"
        + HOST
        + r": (?P<rest>(?:\[ *[0-9]+\.[0-9]+\]|<[0-9]+>|[^ :]+:[0-9]+:[0-9]+ \[|\[(?:rank|default)[0-9]+\]:|\[20[0-9]{2}-[0-9]{2}-[0-9]{2} |[EWIF][0-9]{3,4} |\[[A-Z][a-z]{2} [A-Z][a-z]{2} ).*)$",
    ),
    # kubectl logs --prefix; stern; docker compose.
    Header("pod", r"^\[pod/(?P<pod>[^/\]]+)/[^\]]+\] ?" + REST),
    Header(
        "pod",
        r"^(?P<pod>[a-z][a-z0-9-]*-[a-z0-9]+) [a-z][a-z0-9-]* (?P<rest>(?:\[(?:rank|default)[0-9]+\]:|20[0-9]{2}-[0-9]{2}-[0-9]{2}T).*)$",
    ),
    Header("service", r"^[A-Za-z][A-Za-z0-9_.-]*[_-][0-9]{1,4} +\| " + REST),
    Header("collector", r"^" + ISO + r": (?P<rest>[^ ].*)$"),
    Header(
        "collector", r"^(?P<y>20[0-9]{2})-(?P<mo>[0-9]{2})-(?P<d>[0-9]{2}) (?P<hms>[0-9]{2}:[0-9]{2}) (?P<rest>\[.*)$"
    ),
    # Workflow runners: Metaflow's run/step/task, the identity of a request or run in front of a program's line.
    Header("flow", r"^(?:" + ISO + r" )?\[[^\[\]/ ]+/[A-Za-z_][A-Za-z0-9_]*/[0-9]+ \(pid (?P<pid>[0-9]+)\)\] " + REST),
    # Determined: the container, and the rank if there are several.
    Header("flow", r"^\[" + ISO + r"\] (?:[0-9a-f]{8} )?(?:\[rank=(?P<rank>[0-9]+)\] )?\|\| " + REST),
    Header("flow", r"^<[a-z]+> +\[" + ISO + r"\] \[[0-9a-f]{8}\] (?:\[rank=(?P<rank>[0-9]+)\] )?(?:\|\| )?" + REST),
    Header("run", r"^\[[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\] " + REST),
    Header("grep", r"^[A-Za-z0-9_./-]+\.(?:log|txt|out|err)(?:\.[0-9]+)?(?:\.gz)?:(?:[0-9]+:)?(?P<rest>[^ ].*)$"),
    Header(
        "grep",
        r"^[a-z][a-z0-9_-]*(?:\.[0-9]+)?(?:\.gz)?:(?P<rest>[A-Z][a-z]{2} +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}[ .].*)$",
    ),
    # grep -n, or a mail's and Markdown's marks of quotation, before a stamp.
    Header(
        "grep",
        r"^(?:[0-9]{1,9}[:-]|(?:> ?){1,4})(?P<rest>(?:\[ *[0-9]+\.[0-9]{6}\]|[A-Z][a-z]{2} +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}[ .]"
        r"|20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}|\[[A-Z][a-z]{2} [A-Z][a-z]{2} ).*)$",
    ),
    # logcli's labels; the text that Grafana saves.
    Header(
        "collector",
        r"^"
        + ISO
        + r' \{(?:[^{}]*?\b(?:host|hostname|host_name|nodename|node_name|node)="'
        + HOST
        + r'")?[^{}]*\} '
        + REST,
    ),
    Header("collector", r"^[0-9]{13}\t" + ISO + r"\t" + REST),
    # Syslog over TCP with the count of octets before each message.
    Header("pri", r"^[0-9]{2,5} (?P<rest><[0-9]{1,3}>1 (?:19|20)[0-9]{2}-.*)$"),
    Header("label", r"^(?:SYSLOG|Msg): " + REST),
    Header("pri", r"^<[0-9]{1,3}>(?P<rest>[^ >].*)$"),
    Header("epoch", r"^@(?P<epoch>[0-9]{10}) " + HOST + r" " + REST),
)
_ = BSD

# Not taken off the front but out of the line: the time that a scheduler's line states, and whom a table row is about.
STATED: Final = (
    Header(
        "slurm_end",
        r"^(?:slurmstepd|srun|slurmd)(?:-[^ :]+)?: (?:error: )?"
        r"(?P<rest>\*\*\* (?:JOB|STEP) [^ ]+ (?:STEPD TERMINATED )?ON [^ ]+ (?:CANCELLED )?AT " + ISO + r".*)$",
    ),
    # slurmd names the step where a kernel line has its uptime, but prints no six decimals.
    Header(
        "slurm_step",
        r"^\[[0-9_+]+\.(?:[0-9]{1,4}|batch|extern|interactive)\] (?P<rest>(?:error|fatal|info|done|debug[0-9]?): .*)$",
    ),
    Header("elastic_time", r"^ *(?P<rest>time) +: " + ISO + r" *$"),
    Header(
        "k8s_time",
        r"^ *(?P<rest>Finished): +[A-Z][a-z]{2}, (?P<d>[0-9]{2}) " + MON + r" (?P<y>20[0-9]{2}) " + HMS + ZONE + r" *$",
    ),
    Header(
        "k8s_event",
        r"^(?:[a-z0-9-]+ +)?(?:[0-9][0-9smhdy]*|<[a-z]+>)(?: \(x[0-9]+ over [0-9a-z]+\))? +(?:Normal|Warning) +"
        r"(?P<rest>[A-Z][A-Za-z0-9]+ +(?:[Nn]ode/(?P<host>[^ ]+)|[Pp]od/(?P<pod>[^ ]+)|[A-Za-z][A-Za-z0-9.]*/[^ ]+) +.*)$",
    ),
    Header(
        "k8s_event",
        r"^(?:Normal|Warning) +(?P<rest>[A-Z][A-Za-z0-9]+ +(?:[0-9][0-9smhdy]*|<[a-z]+>)"
        r"(?: \(x[0-9]+ over [0-9a-z]+\))? +[a-z][A-Za-z0-9./-]* +.*)$",
    ),
)

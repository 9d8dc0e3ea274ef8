"""Resource profiles of a classic session: their assignment to tasks, and slots for them.

If Spark supports them, workers and parameter servers are two jobs, whose stages have a profile
each, and register with the same driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.resource import (
    ExecutorResourceRequests,
    ResourceProfile,
    ResourceProfileBuilder,
    TaskResourceRequests,
)
from pyspark.sql import SparkSession

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.task_resources import CPUS, RoleResources, TaskResources


@dataclass(frozen=True, slots=True)
class Profiles:
    """The resource profiles of a cluster's tasks.

    Attributes:
        resources: The requested resources.
        worker: The profile of workers and stages; None for Spark's settings.
        ps: The profile of parameter servers.
        shares_executors: Whether all profiles use the same executors. With dynamic allocation each
            has its own executors.
    """

    resources: RoleResources = field(default_factory=RoleResources)
    worker: ResourceProfile | None = None
    ps: ResourceProfile | None = None
    shares_executors: bool = True

    def __bool__(self) -> bool:
        return self.worker is not None or self.ps is not None

    @property
    def takes_devices(self) -> bool:
        """Whether workers take more than cores."""
        return bool(self.resources.worker.task.keys() - {CPUS})

    def arranged(self, layout: ClusterLayout) -> ClusterLayout:
        """Returns the layout with separate parameter servers, if there are profiles."""
        if not self or not layout.num_ps:
            return layout
        return replace(layout, servers_apart=True)

    def cpus(self, layout: ClusterLayout, settings: Mapping[str, str]) -> int:
        """Returns the number of cores of all tasks."""
        default = int(settings.get("spark.task.cpus", "1"))

        def of(role: TaskResources) -> int:
            return int(role.task.get(CPUS, 1)) if role else default

        workers = layout.num_tasks - layout.num_ps
        return layout.num_ps * of(self.resources.ps) + workers * of(self.resources.worker)


NONE: Final = Profiles()
"""The profiles if all tasks run with Spark's settings."""


def session_profiles(session: SparkSession, resources: RoleResources) -> Profiles:
    """Registers the profiles with a classic session and returns them.

    Returns:
        `NONE` if nothing was requested, or profiles are unavailable, see `why_not`.

    Raises:
        SparkTrainingError: Spark refuses them.
    """
    if not resources or why_not(session.sparkContext.master):
        return NONE
    dynamic = session.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false")
    worker, ps = _known(session, resources.worker), _known(session, resources.ps)
    return Profiles(resources, worker, ps, str(dynamic).lower() != "true")


def why_not(master: str | None) -> str:
    """Returns why a master has no resource profiles; "" if it has."""
    if not master or not master.startswith("local") or master.startswith("local-cluster"):
        return ""
    return (
        f"workerResources and psResources have no effect on {master}, whose tasks are threads of "
        "one process and share what the machine has; Spark has resource profiles on standalone "
        "clusters, YARN, Kubernetes and local-cluster"
    )


def build_profile(resources: TaskResources) -> ResourceProfile:
    """The profile of what a task takes."""
    tasks = TaskResourceRequests()
    for name, amount in {CPUS: 1.0, **resources.task}.items():
        _ = tasks.cpus(int(amount)) if name == CPUS else tasks.resource(name, amount)
    builder = ResourceProfileBuilder().require(tasks)
    if resources.executor:
        builder = builder.require(_executor_requests(resources.executor))
    return builder.build


def _executor_requests(executor: Mapping[str, Mapping[str, Any]]) -> ExecutorResourceRequests:
    requests = ExecutorResourceRequests()
    sizes = {
        "memory": requests.memory,
        "memoryOverhead": requests.memoryOverhead,
        "pyspark.memory": requests.pysparkMemory,
        "offHeap": requests.offheapMemory,
    }
    for name, each in executor.items():
        amount = int(each["amount"])
        if name in sizes:
            sizes[name](f"{amount}m")
        elif name == "cores":
            requests.cores(amount)
        else:
            found = each.get("discoveryScript", ""), each.get("vendor", "")
            requests.resource(name, amount, *found)
    return requests


def _known(session: SparkSession, resources: TaskResources) -> ResourceProfile | None:
    if not resources:
        return None
    profile = build_profile(resources)
    java: Any = profile
    try:
        _scala(session).resourceProfileManager().addResourceProfile(java._java_resource_profile)
    except Exception as error:
        raised: Any = getattr(error, "java_exception", None)  # what py4j raises has Java's own
        text = str(error if raised is None else raised.getMessage()).rstrip(".")
        advice = "Leave workerResources and psResources out here"
        if resources.executor:
            advice = (
                "Without dynamic allocation only what tasks take can be chosen, such as "
                "{'cpus': 2, 'gpu': 1}, on the executors that there are"
            )
        asked = f"Spark refuses the resources {resources}: {text}. {advice}"
        raise SparkTrainingError(asked) from error
    return profile


def count_tasks(session: SparkSession, profile: ResourceProfile | None = None) -> int:
    """How many tasks of a profile can run at the same time, on the executors that are there.

    Args:
        session: A classic session.
        profile: The profile; None for what Spark's settings say.
    """
    context = _scala(session)
    java = (
        context.resourceProfileManager().defaultResourceProfile()
        if profile is None
        else profile._java_resource_profile
    )
    # What Spark's own check of barrier stages asks.
    return int(context.maxNumConcurrentTasks(java))


def count_cores(session: SparkSession) -> int:
    """The cores of all executors, where profiles choose among the same ones."""
    profile = _known(session, TaskResources({CPUS: 1.0}))
    return count_tasks(session, profile)


def describe_shortage(session: SparkSession, layout: ClusterLayout, profiles: Profiles) -> str:
    """What there is too little of for all tasks at once, and what to do; "" if nothing."""
    settings = dict(session.sparkContext.getConf().getAll())
    workers = layout.num_tasks - layout.num_ps
    roles = (
        ("workers", "workerResources", workers, profiles.worker, profiles.resources.worker),
        ("parameter servers", "psResources", layout.num_ps, profiles.ps, profiles.resources.ps),
    )
    for role, parameter, number, profile, wanted in roles:
        found = count_tasks(session, profile) if number else 0
        if found < number:
            each = f" with {wanted} each ({parameter})" if wanted else ""
            return (
                f"{layout.described} need room for {number} {role}{each} at once, and Spark has it "
                f"for {found}. Use fewer, ask for less for each, or give Spark more executors "
                "(--num-executors, --executor-cores, spark.executor.resource.gpu.amount)"
            )
    needed, cores = profiles.cpus(layout, settings), count_cores(session)
    if needed > cores:
        return (
            f"{layout.described} need {needed} cores at once, and Spark has {cores}. Use fewer "
            "workers or parameter servers (numPs=0 has the workers hold the variables), or give "
            "Spark more cores (--num-executors, --executor-cores)"
        )
    return ""


def count_profiled_workers(session: SparkSession, num_ps: int, profiles: Profiles) -> int:
    """For how many workers of a profile there is room, beside so many parameter servers.

    Args:
        session: The session.
        num_ps: Parameter servers.
        profiles: What they run with.
    """
    found = count_tasks(session, profiles.worker)
    if not profiles.shares_executors:
        return found
    settings = dict(session.sparkContext.getConf().getAll())
    beside = profiles.cpus(ClusterLayout(num_ps, 0), settings)
    each = profiles.cpus(ClusterLayout(0, 1), settings)
    return max(0, min(found, (count_cores(session) - beside) // each))


def _scala(session: SparkSession) -> Any:
    context: Any = session.sparkContext
    return context._jsc.sc()

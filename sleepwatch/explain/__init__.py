"""Why a log did, or did not, give an incident: what each line became, what it changed, and which verdict followed."""

from sleepwatch.explain.questions import Explanation, Shown, explain
from sleepwatch.explain.steps import Dismissed, Step
from sleepwatch.explain.why_not import WhyNot, why_not

__all__ = ["Dismissed", "Explanation", "Shown", "Step", "WhyNot", "explain", "why_not"]

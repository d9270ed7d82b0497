"""The site of an atlas: phenomena, models, units, and what the intervention of one phenomenon does to the others."""

from pivotal.report.atlas.site import write_site

__all__ = ["write_site"]

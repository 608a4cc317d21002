"""Reports of trained models: what they cost, how good they are on test sets, where they err; as a page or as text."""

from transduce.report.markdown import report_text
from transduce.report.measurement import ModelReport, RunReport, TestSetReport, measure_runs
from transduce.report.page import report_page

__all__ = ["ModelReport", "RunReport", "TestSetReport", "measure_runs", "report_page", "report_text"]

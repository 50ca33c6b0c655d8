"""A set of Chinese (and some English) diaries over two years with questions, made anew from a seed; all words are ours.

``generate(seed)`` is a pure function. Seeds of odd and of even number share no name, place, sentence or question form:
what is tuned on seed 1 cannot have learnt the words of seed 2, on which figures are reported.
"""

from bench.memory.diary_set.generator import generate
from bench.memory.diary_set.record import CLASSES, DiarySet, Note, Question

__all__ = ["CLASSES", "DiarySet", "Note", "Question", "generate"]

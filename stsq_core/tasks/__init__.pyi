from .boolean import BooleanExamples as BooleanExamples
from .choice import examples_of as examples_of
from .examples import Batch as Batch, Examples as Examples, Source as Source
from .selection import selected as selected

from .boolean import BooleanExamples as BooleanExamples
from .examples import Batch as Batch, Examples as Examples, Source as Source
from .moment import MomentExamples as MomentExamples
from .retrieval import RetrievalExamples as RetrievalExamples
from .selected_mean import SelectedMeanExamples as SelectedMeanExamples
from .selection import StsqExamples as StsqExamples

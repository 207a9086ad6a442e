"""TEMP"""

from mooring.protocol._drawing import MACHINES, draw

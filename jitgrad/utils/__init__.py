"""Helpers around training: `utils.data`."""

from jitgrad.utils import data as data

"""Contents of the benchmark form: conversion between a scenario file and fields.

`fields` has the fields, `document` converts, `preview` describes the resulting run.
"""

"""One function out of a foreign LLVM module."""

from __future__ import annotations

from lpx.runtime import objects
from lpx.runtime.isolation import isolate

MODULE = """
source_filename = "somewhere"
@factor{n} = constant double 3.0
@counter{n} = global i64 0
@unused{n} = global i64 0
declare double @llvm.fabs.f64(double)
declare double @cbrt(double)
declare void @never()

define double @helper{n}(double %x) noinline {{
  %f = load double, ptr @factor{n}
  %y = fmul double %x, %f
  ret double %y
}}

define double @main{n}(double %x) {{
  %a = call double @llvm.fabs.f64(double %x)
  %b = call double @cbrt(double %a)
  %y = call double @helper{n}(double %b)
  ret double %y
}}

define void @counting{n}() {{
  %c = load i64, ptr @counter{n}
  %d = add i64 %c, 1
  store i64 %d, ptr @counter{n}
  ret void
}}

define void @wrapper{n}() {{
  call void @never()
  ret void
}}
"""


def test_keeps_what_is_needed() -> None:
    found = isolate(MODULE.format(n=1), "main1", "f")
    assert found.needs == ("cbrt",)
    assert found.variables == ()
    assert "@f(double" in found.text
    assert "@f.1(" in found.text
    for absent in ("never", "wrapper", "unused", "somewhere", "main1"):
        assert absent not in found.text


def test_variables_are_told() -> None:
    assert isolate(MODULE.format(n=1), "counting1", "f").variables == ("counter1",)


def test_equal_code_has_equal_text() -> None:
    one, other = (isolate(MODULE.format(n=n), f"main{n}", "f").text for n in (1, 2))
    assert one == other
    assert one != isolate(MODULE.format(n=1).replace("3.0", "4.0"), "main1", "f").text


def test_is_for_its_module_alone() -> None:
    text = isolate(MODULE.format(n=1), "main1", "f").text
    user = f"{text}\ndefine double @user(double %x) {{\n  %y = call double @f(double %x)\n  ret double %y\n}}\n"
    module = objects.parse_module(user)
    assert module.get_function("f").linkage == objects.llvm.Linkage.internal
    assert module.get_function("user").linkage == objects.llvm.Linkage.external

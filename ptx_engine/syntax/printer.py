"""Modules as PTX text in one canonical form: ``parse(print_module(m)) == m`` for every module that ``parse`` can give.

Comments, DWARF sections and the spelling of literals are not kept; integers are decimal, floats ``0f``/``0d`` bits.
"""

from __future__ import annotations

from ptx_engine.syntax import ast


def print_module(module: ast.Module) -> str:
    """The text of a module. Instructions keep their ``.loc`` rows; the ``.file`` table stands at the end."""
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    lines += [f".pragma {_strings(d.arguments)};" for d in module.directives if d.name == "pragma"]
    # addresses of functions in initialisers need the prototypes that stand first
    prototypes = next((i for i, f in enumerate(module.functions) if f.body is not None), len(module.functions))
    for function in module.functions[:prototypes]:
        lines += _function(function)
    lines += [_variable(variable) for variable in module.variables]
    for function in module.functions[prototypes:]:
        lines += _function(function)
    lines += [f".alias {', '.join(d.arguments)};" for d in module.directives if d.name == "alias"]
    lines += [f'.file {number} "{path}"' for number, path in module.files]
    return "\n".join([*lines, *_names(module)]) + "\n"


def _names(module: ast.Module) -> list[str]:
    """A string table with the labels that ``function_name`` uses, empty strings all: assemblers refuse a label that is nowhere."""
    labels: dict[str, None] = {}
    todo = [function.body for function in module.functions if function.body is not None]
    while todo:
        for statement in todo.pop():
            if isinstance(statement, ast.Block):
                todo.append(statement.body)
            elif isinstance(statement, ast.LocDirective) and statement.loc.function:
                labels[statement.loc.function.partition("+")[0]] = None
    if not labels:
        return []
    return [".section .debug_str", "{", *(f"{label}:\n.b8 0" for label in labels), "}"]


def print_operand(operand: ast.Operand) -> str:
    """The text of one operand."""
    if isinstance(operand, (ast.Reg, ast.Name)):
        return operand.name
    if isinstance(operand, ast.IntLit):
        return _integer(operand.value)
    if isinstance(operand, ast.FloatLit):
        return _float(operand)
    if isinstance(operand, ast.Mem):
        parts = (print_operand(operand.base) + _offset(operand.offset), *map(print_operand, operand.extra))
        return f"[{', '.join(parts)}]"
    if isinstance(operand, (ast.Vec, ast.Args)):
        opening, closing = "{}" if isinstance(operand, ast.Vec) else "()"
        return f"{opening}{', '.join(map(print_operand, operand.elements))}{closing}"
    if isinstance(operand, ast.Pair):
        return f"{print_operand(operand.first)}|{print_operand(operand.second)}"
    if isinstance(operand, ast.Not):
        return f"!{print_operand(operand.operand)}"
    if isinstance(operand, ast.NameOffset):
        return f"{operand.name}{_signed(operand.offset)}"
    index = _integer(operand.offset) if operand.index is None else print_operand(operand.index) + _offset(operand.offset)
    return f"{operand.name}[{index}]"


def print_instruction(instruction: ast.Instruction) -> str:
    """The text of one instruction, with its ``;``."""
    guard = ""
    if instruction.predicate is not None:
        guard = f"@{'!' if instruction.negated else ''}{instruction.predicate.name} "
    operands = ", ".join(map(print_operand, instruction.operands))
    return f"{guard}{instruction.mnemonic}{' ' if operands else ''}{operands};"


def _function(function: ast.Function) -> list[str]:
    head = f"{_linkage(function.linkage)}{'.entry' if function.is_entry else '.func'}"
    head += "".join(f" .attribute({text[0]})" for name, text in function.directives if name == "attribute")
    if function.returns:
        head += f" ({', '.join(map(_param, function.returns))})"
    head += f" {function.name}"
    if function.params:
        head += "(\n\t" + ",\n\t".join(map(_param, function.params)) + "\n)"
    lines = [head]
    for name, arguments in function.directives:
        if name == "pragma":
            lines.append(f".pragma {_strings(arguments)};")
        elif name != "attribute":
            lines.append(f".{name} {', '.join(arguments)}".rstrip())
    if function.body is None:
        return [*lines, ";"]
    return [*lines, "{", *_body(function.body, "\t"), "}"]


def _body(body: tuple[ast.Statement, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for statement in body:
        if isinstance(statement, ast.Instruction):
            lines.append(indent + print_instruction(statement))
        elif isinstance(statement, ast.Block):
            lines += [f"{indent}{{", *_body(statement.body, indent + "\t"), f"{indent}}}"]
        elif isinstance(statement, ast.Label):
            lines.append(f"{statement.name}:")
        elif isinstance(statement, ast.LocDirective):
            lines.append(indent + _loc(statement.loc))
        elif isinstance(statement, ast.RegDecl):
            lines.append(indent + _registers(statement))
        elif isinstance(statement, ast.Variable):
            lines.append(indent + _variable(statement))
        else:
            lines.append(indent + _directive(statement))
    return lines


def _directive(directive: ast.Directive) -> str:
    if directive.name == "pragma":
        return f".pragma {_strings(directive.arguments)};"
    return f"{directive.arguments[0]}: .{directive.name} {', '.join(directive.arguments[1:])};"


def _loc(loc: ast.Loc) -> str:
    text = f".loc {loc.file} {loc.line} {loc.col}"
    if loc.function:
        text += f", function_name {loc.function}"
    if loc.inlined_at is not None:
        text += f", inlined_at {loc.inlined_at.file} {loc.inlined_at.line} {loc.inlined_at.col}"
    return text


def _registers(declaration: ast.RegDecl) -> str:
    count = "" if declaration.count is None else f"<{declaration.count}>"
    names = ", ".join(f"{name}{count}" for name in declaration.names)
    return f".reg {_vector(declaration.vector)}.{declaration.type} {names};"


def _variable(variable: ast.Variable) -> str:
    text = f"{_linkage(variable.linkage)}.{variable.space} "
    if variable.attributes:
        text += f".attribute({', '.join(variable.attributes)}) "
    text += f".align {variable.align} {_vector(variable.vector)}.{variable.type} {variable.name}{_shape(variable.shape)}"
    if variable.initializer:
        text += f" = {_initializer(variable)}"
    return text + ";"


def _initializer(variable: ast.Variable) -> str:
    """Braces around an array's or a vector's values, each row of inner extents in its own; the last may be short."""
    extents = [*variable.shape, variable.vector] if variable.vector > 1 else list(variable.shape)
    rows = [_initial(value) for value in variable.initializer]
    if not extents and len(rows) == 1 and "=" not in rows[0]:
        return rows[0]
    if all(extents[1:]):
        for extent in reversed(extents[1:]):
            rows = [f"{{{', '.join(rows[at : at + extent])}}}" for at in range(0, len(rows), extent)]
    return f"{{{', '.join(rows)}}}"


def _initial(value: ast.Initial) -> str:
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, ast.FloatLit):
        return _float(value)
    if isinstance(value, ast.Name):
        return value.name
    if isinstance(value, ast.NameOffset):
        return value.name + _signed(value.offset)
    inner = (f"generic({value.name})" if value.generic else value.name) + _offset(value.offset)
    return inner if value.mask is None else f"{value.mask}({inner})"


def _param(param: ast.Param) -> str:
    text = f".{param.space} "
    if param.space == "param":
        text += f".align {param.align} "
    text += f"{_vector(param.vector)}.{param.type} "
    if param.pointer:
        text += ".ptr "
        text += f".{param.pointer_space} " if param.pointer_space else ""
        text += f".align {param.pointer_align} " if param.pointer_align else ""
    return f"{text}{param.name}{_shape(param.shape)}"


def _vector(width: int) -> str:
    return f".v{width} " if width > 1 else ""


def _shape(shape: tuple[int, ...]) -> str:
    return "".join(f"[{extent or ''}]" if index == 0 else f"[{extent}]" for index, extent in enumerate(shape))


def _linkage(linkage: str) -> str:
    return "".join(f".{word} " for word in linkage.split())


def _strings(values: tuple[str, ...]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def _float(literal: ast.FloatLit) -> str:
    return f"0f{literal.bits:08X}" if literal.width == 32 else f"0d{literal.bits:016X}"


def _integer(value: int) -> str:
    # the least .s64 negates a number that is unsigned by its size
    return str(value) if value != -(1 << 63) else "(.s64)9223372036854775808"


def _offset(offset: int) -> str:
    return _signed(offset) if offset else ""


def _signed(offset: int) -> str:
    return f"+{_integer(offset)}"

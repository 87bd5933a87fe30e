"""Twins of identities: the candidate built again with a single fault in it, and for every identity the name of a twin.

A fault replaces one call of a builder: the case is built twice over the same inputs, without and with it, and the reference of
the first is compared with the candidate of the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gmpy2 import mpq
from identities_integers import _argmax, _signed, _unsigned
from identities_norms import _blocks
from identities_products import _split_k
from identity_register import EQUAL, TWINS, WRONG
from normal_terms import Builder, Ids

from ptx_engine.terms import Arena

Replacement = Callable[..., object]


class _Calls:
    """An arena whose calls of one method are counted, and one of them replaced."""

    def __init__(self, arena: Arena, method: str, number: int | None, replacement: Replacement | None) -> None:
        self._arena, self._method, self._number, self._replacement = arena, method, number, replacement
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._arena, name)
        return self._counted(found) if name == self._method else found

    def _counted(self, found: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            number, self.count = self.count, self.count + 1
            if number == self._number and self._replacement is not None:
                return self._replacement(self._arena, *args)
            return found(*args)

        return call


class _Again(Builder):
    """A builder over the arena of another; inputs are its inputs, in order."""

    def __init__(self, arena: Any, inputs: list[Ids]) -> None:
        self.arena = arena
        self._left = list(inputs)

    def inputs(self, count: int, fmt: str = "f32") -> Ids:
        found = self._left.pop(0)
        assert len(found) == count
        return list(found)


class _Noted(Builder):
    """A builder that keeps what inputs it gave."""

    def __init__(self, arena: Any, made: Builder) -> None:
        self.arena, self._made, self.given = arena, made, []  # type: list[Ids]

    def inputs(self, count: int, fmt: str = "f32") -> Ids:
        self.given.append(self._made.inputs(count, fmt))
        return list(self.given[-1])


def fault(name: str, what: str, method: str, number: int, replacement: Replacement) -> None:
    """The twin of an identity in which one call of a method (negative: from the last) gives something else."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        counted = _Calls(b.arena, method, None, None)
        first = _Noted(counted, b)
        reference, _ = EQUAL[name](first)
        chosen = number if number >= 0 else counted.count + number
        assert 0 <= chosen < counted.count, f"{counted.count} calls of {method}"
        _, candidate = EQUAL[name](_Again(_Calls(b.arena, method, chosen, replacement), first.given))
        return reference, candidate

    WRONG[f"{name}: {what}"] = case
    TWINS[name] = f"{name}: {what}"


def FIRST(a: Arena, x: object, *_: object) -> object:
    return x


def SECOND(a: Arena, x: object, y: object, *_: object) -> object:
    return y


def THIRD(a: Arena, x: object, y: object, z: object) -> object:
    return z


def SUM(a: Arena, x: int, y: int) -> object:
    return a.add(x, y)


def PRODUCT(a: Arena, x: int, y: int, z: int) -> object:
    """A multiply-add without what is added."""
    return a.mul(x, y)


# --- activations --------------------------------------------------------------------------------

fault("gelu_erf_backward", "the density missing", "fma", -1, THIRD)
fault("silu_by_tanh", "the half missing", "fma", -1, PRODUCT)
fault("geglu", "the two of the sigmoid missing", "mul", -2, SECOND)
fault("sigmoid_and_its_mirror", "the argument not turned", "neg", -2, FIRST)
fault("tanh_odd_and_doubled", "the wrong sign below", "fma", 0, lambda a, x, y, z: a.sub(z, a.mul(x, y)))
fault("softplus_by_base_2", "the logarithm left in base 2", "mul", -1, SECOND)
fault("softplus_less_its_argument", "the argument not turned", "neg", -1, FIRST)
fault("sigmoid_by_tanh", "the half missing", "fma", -1, PRODUCT)
fault("silu_and_its_mirror", "the wrong sign", "sub", -1, SUM)
fault("gelu_tanh_form", "the two of the sigmoid missing", "mul", -2, SECOND)
fault("gelu_erf_form", "the wrong sign", "sub", -1, SUM)

# --- algebra ------------------------------------------------------------------------------------

fault("strassen", "the wrong sign of a product", "sub", -1, SUM)
fault("split_k_with_alpha_and_beta", "a part without alpha", "mul", -2, SECOND)
fault("two_chained_products", "a product missing", "fma", -1, THIRD)
fault("rope_by_pairs_and_by_halves", "the wrong sign of the sine", "sub", -1, SUM)
fault("dequantised_dot_scale_inside_and_outside", "the zero point once", "mul", -2, FIRST)
fault("top_two_by_comparisons", "the former first forgotten", "select", -2, THIRD)
fault("hard_swish", "the upper bound missing", "minimum", -1, FIRST)
fault("maximum_plus_minimum", "one of the two missing", "add", -1, FIRST)
fault("roots_and_powers", "the scale missing", "div", -1, FIRST)
fault("exponential_of_a_logarithm", "a factor missing", "mul", -1, SECOND)
fault("constants_recognised_and_multiplied", "ln 2 missing", "mul", -1, FIRST)
fault("wrapping_sums", "the wrong sign of 255 = -1 mod 256", "sub", -1, SUM)
fault("floors", "the whole part missing", "add", -1, FIRST)

# --- softmax and attention ----------------------------------------------------------------------

for _block in (1, 2, 3, 4):
    for _base2 in ("", " base 2"):
        fault(f"flash attention 2 block {_block}{_base2}", "the output not rescaled", "mul", -1, FIRST)
        fault(f"flash attention 1 block {_block}{_base2}", "the sum not rescaled", "mul", -2, FIRST)
for _number in (1, 2):
    fault(f"flash attention {_number} block 8", "the last key missing", "exp", -9, lambda a, x: 0)
    fault(f"flash attention {_number} block 8 base 2", "the last key without its exponential", "exp2", -1, FIRST)
fault("split KV merged by LSE unshifted", "a weight not divided", "sub", -1, FIRST)
fault("split_kv_in_three_levels", "a part not shifted", "sub", -1, FIRST)
fault("attention_scale_on_the_query", "a component not scaled", "mul", 0, FIRST)
fault("attention_with_a_bias", "the bias of the last key missing", "fma", -7, THIRD)
fault("attention_weights_as_products", "a weight without its bias", "mul", -1, FIRST)
fault("linear_attention_reassociated", "a product missing", "fma", -1, THIRD)
fault("scale_folded_into_log2e", "a score not scaled", "mul", 1, FIRST)
fault("backward_dq_dk_dv", "dV without its gradient", "mul", -1, FIRST)
fault("softmax shifted", "a score not shifted", "sub", -1, FIRST)
fault("log_sum_exp_online", "the sum not rescaled", "mul", -2, FIRST)
fault("log_softmax", "the LSE not subtracted", "sub", -1, FIRST)
for _block, _count in ((1, 7), (3, 8), (5, 8)):
    _rescaled = f"softmax online, {_count} in blocks of {_block}"
    fault(_rescaled, "the sum not rescaled", "fma", -1, lambda a, x, y, z: a.add(x, z))
for _block in (2, 4, 7):
    fault(f"softmax online, 8 in blocks of {_block}", "the earlier blocks forgotten", "fma", -1, THIRD)
for _shape in ("one after another", "as a tree", "of long scores"):
    for _how in ("a struct", "a branch", "extremes", "a size"):
        fault(f"softmax online by {_how}, {_shape}", "a sum not rescaled", "fma", -1, lambda a, x, y, z: a.add(x, z))
    fault(f"softmax online by two factors, {_shape}", "a sum forgotten", "fma", -1, THIRD)
fault("softmax online, 8 in blocks of 8", "a score not shifted", "sub", -1, FIRST)
fault("softmax_shifted_by_a_part_of_the_maximum", "a score not shifted", "sub", -1, FIRST)
fault("softmax with temperature", "a score without it", "mul", -1, FIRST)
fault("log_sum_exp_in_base_2", "left in base 2", "mul", -1, FIRST)
fault("cross_entropy_shifted_by_the_label", "a score not shifted", "sub", -1, FIRST)

# --- normalisation ------------------------------------------------------------------------------

fault("group_norm_scaled_input", "epsilon not scaled", "mul", -2, FIRST)
fault("shifted_moments", "a value not shifted", "sub", 5, FIRST)
fault("layer_norm_by_a_square_root_and_a_quotient", "epsilon missing", "add", -1, SECOND)
fault("rms_norm_with_a_residual", "epsilon missing", "fma", 0, PRODUCT)
WRONG["layer norm, eight blocks of 2 merged without the spread between them"] = _blocks((2,) * 8, between=False)
WRONG["layer norm, blocks of 1, 2, 4 and 8 merged without the spread between them"] = _blocks((1, 2, 4, 8), between=False)

# --- order --------------------------------------------------------------------------------------

fault("bitonic against odd-even sort of 2", "the maximum not taken", "maximum", -1, FIRST)
fault("bitonic against odd-even sort of 16", "an exchange half done", "minimum", -1, FIRST)
fault("batcher_against_bitonic_sort", "an exchange half done", "maximum", -1, FIRST)
fault("top_four_by_merging_sorted_halves", "an exchange half done", "maximum", -29, FIRST)
fault("maximum_of_sums_and_shifts", "a value not shifted", "add", -1, SECOND)
fault("clamp_by_selections", "the upper bound missing", "select", 0, THIRD)
fault("clamp_of_a_clamp", "the inner upper bound too small", "minimum", 2, lambda a, x, y: a.minimum(x, a.rational(3)))
fault("selection_by_arithmetic", "the second value missing", "fma", -1, PRODUCT)
fault("piecewise value over 8 conditions", "a step missing", "select", -1, THIRD)

# --- sums and products --------------------------------------------------------------------------

fault("sum in a random shape 0", "a term missing", "fma", 0, THIRD)
fault("sum in a random shape 1", "terms missing", "fma", -1, THIRD)
fault("sum in a random shape 2", "terms missing", "fma", -1, SECOND)
fault("neumaier_sum", "a sum left in the compensation", "sub", -1, FIRST)
fault("two_sums_compensated", "a sum left in the compensation", "sub", -1, FIRST)
for _parts in (2, 3, 6):
    WRONG[f"split K in {_parts} with a part missing"] = _split_k(_parts, drop=1)
    TWINS[f"split K in {_parts}"] = f"split K in {_parts} with a part missing"
fault("stream_k", "a product missing", "fma", -1, THIRD)
fault("cumsum_by_scan", "a step missing", "add", -1, FIRST)
fault("cumsum_by_blelloch", "the sum of the others missing", "add", -1, SECOND)
fault("winograd_f23_in_two_dimensions", "the wrong sign", "sub", -1, SUM)
fault("winograd_over_channels", "a channel missing", "add", -1, FIRST)
fault("depthwise_then_pointwise", "a weight missing", "mul", -1, FIRST)
fault("int4 weights in two's complement", "a weight not signed", "emit", -1, lambda a, op, x, width: a.emit(op, x, 4))

# --- integers -----------------------------------------------------------------------------------

WRONG["unsigned division by 5 with a magic number too small"] = _unsigned(5, 0xCCCCCCCC, 2)
WRONG["unsigned division by 1000 with one shift too many"] = _unsigned(1000, 0x10624DD3, 7)
WRONG["unsigned division of 16 bits by 10 with a magic number too small"] = _unsigned(10, 0xCCCC, 3, 16)
WRONG["signed division by 1000 with one shift too few"] = _signed(1000, 0x10624DD3, 5)
fault("division_of_a_division", "a divisor of 209", "rational", -1, lambda a, value: a.rational(mpq(209)))
fault("index_taken_apart_and_put_together", "the quotient missing", "fma", -1, THIRD)
WRONG["argmax of 2 with the last position at ties"] = _argmax(2, wrong_tie=True)
fault("argmax of 16", "the position of the other half", "select", -1, THIRD)
fault("argmax of 64", "the position of the other half", "select", -1, THIRD)
fault("argmin of 8", "the value of the other half", "select", -2, THIRD)
fault("argmin of 64", "the position of the other half", "select", -1, THIRD)

#: the identities whose twins are written out beside them
TWINS.update(
    {
        "gelu_tanh_with_x_taken_out": "gelu_tanh_without_the_cube",
        "gelu_erf_by_the_mirror": "gelu_erf_without_the_root",
        "silu_as_a_quotient": "silu_with_the_sign_dropped",
        "silu_backward": "silu_backward_without_one_term",
        "swiglu_of_two_products": "swiglu_with_gate_and_value_exchanged",
        "swiglu_with_base_2": "swiglu_with_gate_and_value_exchanged",
        "sigmoid_backward": "sigmoid_backward_with_a_plain_square",
        "softplus_stable_form": "softplus_without_the_maximum",
        "mish_by_exponentials": "mish_with_one_in_place_of_two",
        "elu_by_maximum_and_minimum": "elu_without_the_minus_one",
        "squared_relu": "squared_relu_of_a_negative",
        "tanh_by_exponentials": "tanh_with_the_wrong_sign",
        "sum_in_any_shape": "sum_with_one_term_twice",
        "kahan_sum": "kahan_with_the_wrong_compensation",
        "winograd_f23": "winograd_with_a_wrong_sign",
        "sort_by_two_networks": "sort_with_one_round_missing",
        "clamp_compositions": "clamp_of_another_bound",
        "maximum_by_selection": "maximum_by_the_wrong_selection",
        "absolute_values": "absolute_value_dropped",
        "absolute_value_of_a_product": "absolute_value_scaled_by_an_unknown_sign",
        "maximum_scaled_by_an_exponential": "maximum_scaled_by_an_unknown",
        "leaky_relu": "leaky_relu_of_slope_two",
        "selections_nested_and_merged": "selections_with_or",
        "logarithms_of_positive_values": "logarithm_of_a_product_of_unknown_signs",
        "causal attention in blocks": "causal attention that sees one key ahead",
        "attention_with_its_lse": "attention_lse_without_the_change_of_base",
        "split KV merged by LSE": "split KV averaged",
        "split_kv": "split_kv_without_weights",
        "online_with_a_lazy_rescale": "online_with_a_rescale_left_out",
        "attention backward dQ dK dV": "attention backward without the scale in dQ",
        "backward_of_softmax_from_lse": "backward_without_delta",
        "running_maximum_of_scaled_scores": "running_maximum_of_negatively_scaled_scores",
        "softmax any shift": "softmax_with_two_shifts",
        "softmax base 2": "softmax_of_base_2_without_the_constant",
        "softmax_two_passes": "softmax_with_maxima_over_different_sets",
        "softmax with temperature folded into log2 e": "softmax with another temperature folded into log2 e",
        "softmax_masked_by_minus_infinity": "softmax_masked_by_zero",
        "softmax_backward": "softmax_backward_with_the_wrong_sign",
        "log_sum_exp": "log_sum_exp_without_adding_the_maximum",
        "log_sum_exp_of_two_parts": "log_sum_exp_of_two_parts_averaged",
        "log_add_exp_with_one_exponential": "log_add_exp_with_the_wrong_sign",
        "cross_entropy": "cross_entropy_of_another_label",
        "cross_entropy_by_one_hot_labels": "cross_entropy_without_the_shift_back",
        "cross_entropy_with_smoothed_labels": "cross_entropy_with_the_smoothing_forgotten",
        "cross_entropy_backward": "cross_entropy_backward_of_another_label",
        "layer norm moments": "second_moment_without_the_mean",
        "layer norm welford": "welford_with_the_old_mean_twice",
        "layer norm chan": "layer_norm_with_unbiased_variance",
        "layer norm affine folded": "layer norm affine folded with the wrong sign",
        "layer norm, blocks of 3, 4 and 2 merged": "layer norm, blocks merged without the spread between them",
        "layer norm, eight blocks of 2 merged": "layer norm, eight blocks of 2 merged without the spread between them",
        "layer norm, blocks of 1, 2, 4 and 8 merged": "layer norm, blocks of 1, 2, 4 and 8 merged without the spread between them",
        "chan_merged_as_a_tree": "chan_with_the_sum_for_the_mean",
        "layer_norm_backward": "layer_norm_backward_without_the_projection",
        "rms_norm": "rms_norm_with_epsilon_outside_the_root",
        "group norm by channels": "group norm over the wrong channels",
        "batch_norm_folded_into_a_product": "batch_norm_folded_without_its_mean",
        "bitonic against odd-even sort of 4": "bitonic_sort_with_one_direction_turned",
        "sort_by_selections": "sort_by_selections_with_one_exchange_missing",
        "top two of five by comparisons": "top two that forget the former first",
        "median_of_three": "median_of_three_with_one_minimum_for_a_maximum",
        "maximum_in_any_shape": "maximum_of_another_set",
        "minimum_as_a_negated_maximum": "minimum_as_a_maximum_of_reciprocals",
        "saturating_cast_as_a_clamp": "saturating_cast_with_the_bounds_of_uint8",
        "clamped_value_fits_its_type": "clamped_value_that_does_not_fit",
        "sign_by_comparisons": "sign_with_one_at_zero",
        "nan_aware_extremes": "nan_aware_maximum_with_the_wrong_side",
        "selections over 10 conditions of their own": "selections over 10 conditions of which one is not asked",
        "piecewise value over 4 conditions": "piecewise_value_with_a_threshold_moved",
        "sum_by_butterfly": "sum_by_butterfly_with_a_step_missing",
        "split K in 4": "split K with a part missing",
        "epilogue_folded_into_the_accumulator": "epilogue_with_beta_lost",
        "cumsum_by_blocks": "cumsum_without_the_carry",
        "linear_recurrence_by_scan": "linear_recurrence_with_the_wrong_factor",
        "strassen_winograd": "strassen_with_a_wrong_sign",
        "three_products_for_a_complex_one": "three_products_with_the_wrong_sum",
        "convolution as an implicit product": "convolution with a column too far",
        "rotary scores by pairs and by halves": "rotary scores with the wrong sign",
        "rope_by_half_rotation": "rope_by_half_rotation_of_the_other_layout",
        "int4 weights, scale outside of the sum": "int4 weights with the zero point of seven",
        "int8 weights with scales to groups": "int8 weights with the scales exchanged",
        "int8_products_of_both_sides": "int8_products_without_the_product_of_the_zeros",
        "low_rank_update": "low_rank_update_without_its_scale",
        "unsigned division by 3": "unsigned division by 3 with a magic number too small",
        "unsigned division by 5": "unsigned division by 5 with a magic number too small",
        "unsigned division by 1000": "unsigned division by 1000 with one shift too many",
        "unsigned division of 16 bits by 10": "unsigned division of 16 bits by 10 with a magic number too small",
        "unsigned_division_by_7": "unsigned division by 7 in a magic number of 32 bits",
        "signed division by 3": "signed_division_without_the_sign",
        "signed division by 5": "signed division by 5 with one shift too many",
        "signed division by 1000": "signed division by 1000 with one shift too few",
        "signed_division_by_a_power_of_two": "signed_division_by_a_shift",
        "remainder_by_a_mask": "remainder_of_a_signed_value_by_a_mask",
        "bits_by_logic_and_by_arithmetic": "bits_added_that_overlap",
        "word_of_four_bytes": "word_with_two_bytes_exchanged",
        "64-bit sum by halves with carries": "64-bit sum without the carries",
        "sign_extension_by_shifts": "zero_extension_for_sign_extension",
        "argmax of 2": "argmax of 2 with the last position at ties",
        "argmax of 4": "argmax with the last position at ties",
        "argmax_of_sorted_runs_without_comparing_positions": "argmax_with_the_later_one_kept",
    }
)

"""libtern through ctypes: the library, its structs and its functions, as include/tern.h declares them.

Every struct has the members of the C struct of the same name, in their order; tests/python/test_layout.py compares
sizes and offsets with what a C compiler makes of the header.
"""
from __future__ import annotations

import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32,
                    c_size_t, c_uint32, c_uint64, c_void_p)
from ctypes.util import find_library
from pathlib import Path
from typing import Any, List, Optional, Tuple

Fields = List[Tuple[str, Any]]


class Error(Structure):
    """tern_error"""

    _fields_: Fields = [("code", c_int), ("message", c_char * 504)]


class Sized(Structure):
    """A struct that begins with its size (tern/sized.h), which is that of the class."""

    def __init__(self, **members: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **members)


class LoraUse(Structure):
    """tern_lora_use"""

    _fields_: Fields = [("lora", c_void_p), ("scale", c_float)]


class KvTypes(Structure):
    """tern_kv_types"""

    _fields_: Fields = [("k", c_int), ("v", c_int)]


class SessionParams(Sized):
    """tern_session_params"""

    _fields_: Fields = [("size", c_size_t), ("n_ctx", c_uint32), ("n_batch", c_uint32), ("max_outputs", c_uint32), ("kv", KvTypes),
                        ("keep_hidden", c_bool), ("steps", c_uint32), ("host_sampling", c_bool),
                        ("loras", POINTER(LoraUse)), ("n_loras", c_uint32), ("reserved", c_uint32), ("mtp", c_bool),
                        ("n_state_checkpoints", c_uint32)]


PROGRESS = CFUNCTYPE(c_bool, c_void_p, c_float)


class EngineCpu(Structure):
    """tern_engine_options.cpu"""

    _fields_: Fields = [("n_threads", c_uint32), ("pin", c_bool), ("ffn", c_int), ("features", c_char_p),
                        ("reserved", c_uint64 * 4)]


class EngineGpu(Structure):
    """tern_engine_options.gpu"""

    _fields_: Fields = [("device", c_char_p), ("split", c_bool), ("n_layers", c_uint32), ("validation", c_bool),
                        ("profile", c_bool), ("reserved", c_uint64 * 4)]


class EngineMemory(Structure):
    """tern_engine_options.memory"""

    _fields_: Fields = [("experts", c_char_p), ("kv", c_char_p), ("kv_disk", c_char_p),
                        ("session", POINTER(SessionParams)), ("no_check", c_bool), ("reserved", c_uint64 * 4)]


class EngineOptions(Sized):
    """tern_engine_options"""

    _fields_: Fields = [("size", c_size_t), ("backend", c_int), ("cpu", EngineCpu), ("gpu", EngineGpu),
                        ("memory", EngineMemory), ("head", c_char_p), ("activations", c_int), ("kernel", c_char_p),
                        ("tune_file", c_char_p), ("no_fusion", c_char_p), ("batch_invariant", c_bool),
                        ("no_tokenizer", c_bool), ("progress", PROGRESS), ("progress_context", c_void_p),
                        ("ranks", c_void_p), ("n_stages", c_uint32), ("reserved", c_uint32), ("mtp", c_bool)]


class EngineInfo(Sized):
    """tern_engine_info"""

    _fields_: Fields = [("size", c_size_t), ("architecture", c_char_p), ("name", c_char_p), ("encoding", c_char_p),
                        ("head", c_char_p), ("activations", c_char_p), ("n_vocab", c_uint32), ("n_ctx_train", c_uint32),
                        ("n_embd", c_uint32), ("n_layers", c_uint32), ("parameters", c_uint64),
                        ("ternary_parameters", c_uint64), ("bytes", c_uint64), ("n_unused_tensors", c_uint64),
                        ("unused_tensors", c_char_p), ("bos", c_int32), ("eos", c_int32), ("adds_bos", c_bool),
                        ("has_tokenizer", c_bool), ("pooling", c_int), ("chat_template", c_char_p),
                        ("backend", c_char_p), ("device", c_char_p), ("driver", c_char_p), ("max_steps", c_uint32),
                        ("experts", c_uint32), ("experts_held", c_uint32), ("experts_bytes", c_uint64),
                        ("experts_held_bytes", c_uint64), ("kv_memory", c_uint64), ("kv_disk", c_char_p),
                        ("layer_experts", c_uint32), ("token_experts", c_uint32),
                        ("token_expert_bytes", c_uint64), ("exchange", c_char_p), ("has_mtp", c_bool)]


class LoraInfo(Structure):
    """tern_lora_info"""

    _fields_: Fields = [("rank", c_uint32), ("alpha", c_float), ("n_layers", c_uint32), ("parameters", c_uint64),
                        ("bytes", c_uint64)]


class Tokens(Structure):
    """tern_tokens"""

    _fields_: Fields = [("ids", POINTER(c_int32)), ("n", c_size_t), ("cap", c_size_t)]


class Buf(Structure):
    """tern_buf"""

    _fields_: Fields = [("data", POINTER(c_char)), ("size", c_size_t), ("cap", c_size_t)]


class ChatMessage(Structure):
    """tern_chat_message"""

    _fields_: Fields = [("role", c_char_p), ("content", c_char_p), ("n_content", c_size_t)]


class LogitBias(Structure):
    """tern_logit_bias"""

    _fields_: Fields = [("id", c_int32), ("bias", c_float)]


class SamplerChain(Sized):
    """tern_sampler_chain"""

    _fields_: Fields = [("size", c_size_t), ("order", POINTER(c_int)), ("n_order", c_uint32), ("top_n_sigma", c_float),
                        ("dynatemp_range", c_float), ("dynatemp_exponent", c_float), ("xtc_probability", c_float),
                        ("xtc_threshold", c_float), ("dry_multiplier", c_float), ("dry_base", c_float),
                        ("dry_allowed_length", c_uint32), ("dry_last_n", c_uint32),
                        ("dry_breakers", POINTER(c_char_p)), ("n_dry_breakers", c_uint32), ("mirostat_tau", c_float),
                        ("mirostat_eta", c_float)]


class SamplerParams(Structure):
    """tern_sampler_params"""

    _fields_: Fields = [("temperature", c_float), ("top_k", c_uint32), ("top_p", c_float), ("min_p", c_float),
                        ("typical_p", c_float), ("repetition_penalty", c_float), ("presence_penalty", c_float),
                        ("frequency_penalty", c_float), ("penalty_last_n", c_uint32), ("seed", c_uint64),
                        ("biases", POINTER(LogitBias)), ("n_biases", c_uint32), ("chain", POINTER(SamplerChain)),
                        ("reserved", c_uint64 * 7)]


class Piece(Structure):
    """tern_piece"""

    _fields_: Fields = [("id", c_int32), ("text", POINTER(c_char)), ("n_text", c_size_t)]


class TokenFilter(Structure):
    """tern_token_filter"""

    _fields_: Fields = [("mask", c_void_p), ("accept", c_void_p), ("context", c_void_p)]


ON_PIECE = CFUNCTYPE(c_bool, c_void_p, POINTER(Piece))


class GenerateParams(Sized):
    """tern_generate_params"""

    _fields_: Fields = [("size", c_size_t), ("sampler", SamplerParams), ("max_tokens", c_uint32),
                        ("stops", POINTER(c_char_p)),
                        ("n_stops", c_uint32), ("ignore_eos", c_bool), ("show_special", c_bool),
                        ("context_shift", c_bool), ("n_keep", c_uint32), ("draft_tokens", c_uint32),
                        ("draft", c_void_p), ("draft_costs", POINTER(c_double)), ("filter", POINTER(TokenFilter)),
                        ("on_piece", ON_PIECE), ("context", c_void_p)]


class GenerateResult(Sized):
    """tern_generate_result"""

    _fields_: Fields = [("size", c_size_t), ("reason", c_int), ("n_prompt", c_uint32), ("n_generated", c_uint32),
                        ("n_drafted", c_uint32),
                        ("n_accepted", c_uint32), ("steps", c_uint32), ("prefill_ms", c_double),
                        ("decode_ms", c_double), ("weight_bytes", c_uint64)]


class PerplexityParams(Sized):
    """tern_perplexity_params"""

    _fields_: Fields = [("size", c_size_t), ("window", c_uint32), ("against", c_void_p), ("progress", c_void_p),
                        ("context", c_void_p)]


class PerplexityResult(Sized):
    """tern_perplexity_result"""

    _fields_: Fields = [("size", c_size_t), ("n_scored", c_uint64), ("n_windows", c_uint32), ("nll", c_double), ("ppl", c_double),
                        ("top1", c_double), ("kl", c_double), ("same_top1", c_double)]


class FinetunePlan(Structure):
    """tern_finetune_plan"""

    _fields_: Fields = [("weights", c_uint64), ("masters", c_uint64), ("gradients", c_uint64), ("moments", c_uint64),
                        ("activations", c_uint64), ("other", c_uint64), ("total", c_uint64), ("limit", c_uint64),
                        ("n_trained", c_uint64), ("n_parameters", c_uint64), ("backend", c_char_p),
                        ("device", c_char_p), ("n_steps", c_uint64), ("n_rows", c_uint64),
                        ("n_validation_rows", c_uint64), ("batch", c_uint32), ("seq", c_uint32),
                        ("accumulate", c_uint32), ("lr", c_double), ("bf16", c_bool)]


class FinetuneProfileRow(Structure):
    """tern_finetune_profile_row"""

    _fields_: Fields = [("name", c_char_p), ("kernel", c_char_p), ("n", c_uint64), ("ns", c_uint64)]


class FinetuneEvent(Structure):
    """tern_finetune_event"""

    _fields_: Fields = [("kind", c_int), ("step", c_uint64), ("n_steps", c_uint64), ("epoch", c_double),
                        ("loss", c_double), ("ppl", c_double), ("norm", c_double), ("lr", c_double),
                        ("step_ms", c_double), ("tokens_per_second", c_double), ("examples_per_second", c_double),
                        ("eta", c_double), ("best_loss", c_double), ("best_step", c_uint64), ("duty", c_double),
                        ("celsius", c_double), ("mhz", c_double), ("watts", c_double), ("resident", c_uint64),
                        ("done", c_double), ("text", c_char_p), ("plan", POINTER(FinetunePlan)),
                        ("expert_rows", POINTER(c_uint64)), ("n_layers", c_uint32), ("n_experts", c_uint32),
                        ("expert_imbalance", c_double), ("profile", POINTER(FinetuneProfileRow)),
                        ("n_profile", c_size_t), ("n_profiled", c_uint64)]


ON_EVENT = CFUNCTYPE(None, c_void_p, POINTER(FinetuneEvent))
GO_ON = CFUNCTYPE(c_bool, c_void_p)
Strings = POINTER(c_char_p)


class FinetuneCpu(Structure):
    """tern_finetune_options.cpu"""

    _fields_: Fields = [("n_threads", c_uint32), ("pin", c_bool), ("features", c_char_p), ("reserved", c_uint64 * 4)]


class FinetuneGpu(Structure):
    """tern_finetune_options.gpu"""

    _fields_: Fields = [("device", c_char_p), ("validation", c_bool), ("reserved", c_uint64 * 4)]


class FinetuneOptions(Sized):
    """tern_finetune_options"""

    _fields_: Fields = [
        ("size", c_size_t), ("model", c_char_p), ("config", c_char_p), ("tokenizer", c_char_p), ("data", Strings),
        ("n_data", c_size_t),
        ("validation_data", c_char_p), ("validation_split", c_double), ("split", c_int), ("mark", c_char_p),
        ("column", c_char_p), ("skip_bad", c_bool), ("chat_template", c_char_p), ("output", c_char_p),
        ("type", c_char_p), ("resume", c_bool), ("overwrite", c_bool), ("dry_run", c_bool), ("temp_dir", c_char_p),
        ("lora_rank", c_uint32),
        ("lora_alpha", c_float), ("lora_dropout", c_float), ("lora_targets", Strings), ("n_lora_targets", c_size_t),
        ("lora_start", c_char_p), ("add_tokens", Strings), ("n_add_tokens", c_size_t), ("freeze", Strings),
        ("n_freeze", c_size_t), ("steps", c_uint64),
        ("epochs", c_double), ("batch", c_uint32), ("seq", c_uint32), ("accumulate", c_uint32), ("sequential", c_bool),
        ("seed", c_uint64), ("optimizer", c_int), ("lr", c_double), ("beta1", c_double), ("beta2", c_double),
        ("eps", c_double), ("weight_decay", c_double), ("momentum", c_double), ("clip", c_double),
        ("schedule", c_int), ("warmup", c_double), ("master", c_int), ("states", c_int),
        ("sync_every", c_uint32), ("threshold", c_float), ("clamp", c_float), ("blend_steps", c_uint64),
        ("checkpoint", c_bool), ("optimizer_in_backward", c_bool), ("f32_activations", c_bool),
        ("memory_limit", c_uint64), ("evaluate_every", c_uint64), ("patience", c_uint32), ("save_every", c_uint64),
        ("sample_every", c_uint64), ("sample_prompt", c_char_p), ("sample_tokens", c_uint32), ("plot", c_bool), ("backend", c_int),
        ("cpu", FinetuneCpu), ("gpu", FinetuneGpu), ("profile", c_bool), ("power", c_int), ("max_temp", c_double),
        ("thermal_trace", c_char_p), ("on_event", ON_EVENT),
        ("go_on", GO_ON), ("context", c_void_p), ("ranks", c_void_p),
        ("precision", c_int)]


class FinetuneResult(Sized):
    """tern_finetune_result"""

    _fields_: Fields = [("size", c_size_t), ("n_steps", c_uint64), ("loss", c_double), ("first_validation", c_double),
                        ("last_validation", c_double), ("best_validation", c_double), ("best_step", c_uint64),
                        ("stopped_early", c_bool), ("n_tokens", c_uint64), ("seconds", c_double), ("step_ms", c_double),
                        ("tokens_per_second", c_double), ("examples_per_second", c_double),
                        ("planned_bytes", c_uint64), ("resident_bytes", c_uint64), ("dispatches", c_uint64)]


# The enum tern_choice.
CHOICES = {name: i for i, name in enumerate(
    ("backend", "ffn", "activations", "kv_type", "pooling", "split", "optimizer", "schedule", "master", "states",
     "power", "sampler_step", "precision"))}

# The struct of the header that each class is.
STRUCTS = {
    "tern_error": Error, "tern_lora_use": LoraUse, "tern_kv_types": KvTypes,
    "tern_session_params": SessionParams,
    "tern_engine_options": EngineOptions, "tern_engine_info": EngineInfo, "tern_lora_info": LoraInfo,
    "tern_tokens": Tokens, "tern_buf": Buf, "tern_chat_message": ChatMessage, "tern_logit_bias": LogitBias,
    "tern_sampler_chain": SamplerChain, "tern_sampler_params": SamplerParams, "tern_piece": Piece,
    "tern_token_filter": TokenFilter,
    "tern_generate_params": GenerateParams, "tern_generate_result": GenerateResult,
    "tern_perplexity_params": PerplexityParams, "tern_perplexity_result": PerplexityResult,
    "tern_finetune_plan": FinetunePlan, "tern_finetune_event": FinetuneEvent,
    "tern_finetune_options": FinetuneOptions, "tern_finetune_result": FinetuneResult,
}

_E = POINTER(Error)
_P = c_void_p
_IDS = POINTER(c_int32)

# name: (result, arguments). Statuses are c_int and become exceptions in errors.check.
_FUNCTIONS = {
    "tern_version": (c_char_p, []),
    "tern_choice_word": (c_char_p, [c_int, c_uint32]),
    "tern_choice_parse": (c_int, [c_int, c_char_p, POINTER(c_uint32), _E]),
    "tern_engine_load": (c_int, [POINTER(_P), c_char_p, POINTER(EngineOptions), _E]),
    "tern_engine_close": (None, [_P]),
    "tern_engine_describe": (c_int, [_P, POINTER(EngineInfo), _E]),
    "tern_engine_tokenize": (c_int, [_P, c_char_p, c_size_t, c_uint32, POINTER(Tokens), _E]),
    "tern_engine_detokenize": (c_int, [_P, _IDS, c_size_t, c_bool, POINTER(Buf), _E]),
    "tern_engine_is_end": (c_bool, [_P, c_int32]),
    "tern_engine_chat_prompt": (c_int, [_P, _P, POINTER(ChatMessage), c_size_t, c_bool, POINTER(Tokens), _E]),
    "tern_engine_tokenizer": (_P, [_P]),
    "tern_chat_template_parse": (c_int, [POINTER(_P), c_char_p, c_size_t, _E]),
    "tern_chat_template_close": (None, [_P]),
    "tern_chat_template_builtin": (c_char_p, [c_char_p]),
    "tern_tokens_deinit": (None, [POINTER(Tokens)]),
    "tern_buf_deinit": (None, [POINTER(Buf)]),
    "tern_lora_load": (c_int, [POINTER(_P), _P, c_char_p, _E]),
    "tern_lora_close": (None, [_P]),
    "tern_lora_describe": (c_int, [_P, POINTER(LoraInfo), _E]),
    "tern_session_open": (c_int, [POINTER(_P), _P, POINTER(SessionParams), _E]),
    "tern_session_close": (None, [_P]),
    "tern_session_set_loras": (c_int, [_P, POINTER(LoraUse), c_uint32, _E]),
    "tern_session_n_ctx": (c_uint32, [_P]),
    "tern_session_kv_bytes": (c_uint64, [_P]),
    "tern_session_tokens": (_IDS, [_P]),
    "tern_session_n_tokens": (c_uint32, [_P]),
    "tern_session_append": (c_int, [_P, _IDS, c_uint32, _E]),
    "tern_session_logits": (c_int, [_P, c_uint32, POINTER(POINTER(c_float)), _E]),
    "tern_session_embed": (c_int, [_P, _IDS, c_uint32, c_int, c_bool, POINTER(c_float), _E]),
    "tern_session_truncate": (None, [_P, c_uint32]),
    "tern_session_save": (c_int, [_P, c_char_p, _E]),
    "tern_session_restore": (c_int, [_P, c_char_p, _E]),
    "tern_generation_open": (c_int, [POINTER(_P), _P, _IDS, c_uint32, POINTER(GenerateParams), _E]),
    "tern_generation_step": (c_int, [_P, POINTER(c_bool), _E]),
    "tern_generation_describe": (c_int, [_P, POINTER(GenerateResult), _E]),
    "tern_generation_close": (None, [_P]),
    "tern_stop_reason_name": (c_char_p, [c_int]),
    "tern_perplexity": (c_int, [_P, _IDS, c_size_t, POINTER(PerplexityParams), POINTER(PerplexityResult), _E]),
    "tern_grammar_vocab_open": (c_int, [POINTER(_P), _P, _E]),
    "tern_grammar_vocab_close": (None, [_P]),
    "tern_grammar_open": (c_int, [POINTER(_P), _P, c_int, c_char_p, c_size_t, _E]),
    "tern_grammar_close": (None, [_P]),
    "tern_grammar_state_open": (c_int, [POINTER(_P), _P, _E]),
    "tern_grammar_state_close": (None, [_P]),
    "tern_grammar_state_filter": (TokenFilter, [_P]),
    "tern_finetune_defaults": (c_int, [POINTER(FinetuneOptions), _E]),
    "tern_finetune": (c_int, [POINTER(FinetuneOptions), POINTER(FinetuneResult), _E]),
}


def _candidates() -> List[str]:
    """Where the library may lie: TERN_LIBRARY, beside this file (in a wheel), where the system looks."""
    named = os.environ.get("TERN_LIBRARY")
    if named:
        return [named]
    beside = sorted(str(p) for p in Path(__file__).parent.glob("libtern.so*"))
    system: Optional[str] = find_library("tern")
    return [*beside, system or "libtern.so.0"]


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as e:
            tried.append(f"{path}: {e}")
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        return library
    raise ImportError("libtern was not found (TERN_LIBRARY names it): " + "; ".join(tried))


lib = _load()

/* A parser of tool calls under way; for tools.c and tools_forms.c. */
#ifndef TERN_TEXT_CHAT_TOOLS_INTERNAL_H
#define TERN_TEXT_CHAT_TOOLS_INTERNAL_H

#include "base/bytes.h"
#include "tern/text.h"

enum { TERN_TOOLS_MAX_CALLS = 1024, TERN_TOOLS_MAX_HELD = 16 << 20 };

/* The kind of the text that comes next. */
typedef enum tern_tool_place {
    TERN_TOOL_START,   /* nothing came yet but white space */
    TERN_TOOL_CONTENT, /* text, in which a call may begin */
    TERN_TOOL_CALL,    /* after what begins calls */
    TERN_TOOL_REASON,  /* Harmony's analysis */
    TERN_TOOL_HEAD     /* Harmony's header of a message */
} tern_tool_place;

/* Where the text is in the thoughts before an answer. */
typedef enum tern_thought_place {
    TERN_THOUGHTS_OVER, /* or there are none */
    TERN_THOUGHTS_AWAITED,
    TERN_THOUGHTS_OPENED, /* nothing of them came yet but blanks */
    TERN_THOUGHTS_INSIDE,
    TERN_THOUGHTS_CLOSED /* nothing came behind them but blanks */
} tern_thought_place;

struct tern_tool_parser {
    tern_tool_form form;
    tern_tool_place place;
    tern_thought_place thoughts;
    const tern_thought_marks *marks; /* of thoughts; NULL: none are looked for */
    tern_buf held;                   /* what is not decided yet */
    bool finished;
    const char *close; /* of the call under way; NULL: its JSON ends it */

    bool announces;
    uint64_t salt;         /* of ids */
    char *name, id[16];    /* of the call under way, once it is announced; NULL: it is not */
    size_t arguments, end; /* of it in `held`: what lies between is certain */

    char recipient[256]; /* Harmony's, of the message under way */
    tern_tool_call *calls;
    size_t n, cap;
    tern_buf *content, *reasoning; /* of the call of add or finish under way */
};

/* Takes n bytes of JSON as one call, or as an array of them: *found says whether it was. Errors: LIMIT,
 * OUT_OF_MEMORY. */
tern_status tern_tools__take(tern_tool_parser *parser, tern_span json, bool *found, tern_error *err);
/* A call of which the name is known. */
tern_status tern_tools__take_named(tern_tool_parser *parser, tern_span name, tern_span id, tern_span arguments,
                                   bool *found, tern_error *err);
/* "call_" and eight hexadecimal digits for the call that comes next. */
void tern_tools__make_id(const tern_tool_parser *parser, tern_span name, tern_span arguments, char id[16]);
/* The call under way is certain, if calls are announced: its name, and where in `held` its arguments begin. */
tern_status tern_tools__announce(tern_tool_parser *parser, tern_span name, size_t arguments, tern_error *err);
/* Looks for its beginning in JSON at `from` of what is held, of which what lies before `end` is certain. */
tern_status tern_tools__watch(tern_tool_parser *parser, size_t from, size_t end, tern_error *err);
/* The arguments of the call that was announced, as the model wrote them and as far as they are certain. */
tern_span tern_tools__announced(const tern_tool_parser *parser);
/* It becomes a call. */
tern_status tern_tools__take_announced(tern_tool_parser *parser, bool *found, tern_error *err);
void tern_tools__free_call(const tern_tool_call *call);
/* Where the JSON value at the beginning of the text ends; 0: not yet. */
size_t tern_tools__json_end(tern_span text);
/* Where `word` is in the text, or the text's size. */
size_t tern_tools__find(tern_span text, const char *word);
/* How many bytes at the text's end may begin `word`. */
size_t tern_tools__begun(tern_span text, const char *word);
/* Moves n bytes of what is held to `out` (NULL: nowhere). */
tern_status tern_tools__give(tern_tool_parser *parser, size_t n, tern_buf *out, tern_error *err);
/* Whether the text begins with `word`, or, cut short, may yet. */
bool tern_tools__may_begin(tern_span text, const char *word);
/* Decides what can be decided; *more: something was, so that it should be called again. */
tern_status tern_tools__think(tern_tool_parser *parser, bool *more, tern_error *err);
tern_status tern_tools__harmony(tern_tool_parser *parser, bool *more, tern_error *err);

#endif

/* Properties of characters as Python's methods of strings ask for them. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "text/jinja/text.h"

/* Python's isdigit() and isnumeric() beside the categories. Source: the Unicode Character Database 14.0.0,
 * Numeric_Type. */
#define MORE_DIGITS                                                                                                    \
    "\\x{b2}-\\x{b3}\\x{b9}\\x{1369}-\\x{1371}\\x{19da}\\x{2070}\\x{2074}-\\x{2079}\\x{2080}-\\x{2089}"                \
    "\\x{2460}-\\x{2468}\\x{2474}-\\x{247c}\\x{2488}-\\x{2490}\\x{24ea}\\x{24f5}-\\x{24fd}\\x{24ff}"                   \
    "\\x{2776}-\\x{277e}\\x{2780}-\\x{2788}\\x{278a}-\\x{2792}\\x{10a40}-\\x{10a43}\\x{10e60}-\\x{10e68}"              \
    "\\x{11052}-\\x{1105a}\\x{1f100}-\\x{1f10a}"
#define MORE_NUMBERS                                                                                                   \
    "\\x{3405}\\x{3483}\\x{382a}\\x{3b4d}\\x{4e00}\\x{4e03}\\x{4e07}\\x{4e09}\\x{4e5d}\\x{4e8c}\\x{4e94}"              \
    "\\x{4e96}\\x{4ebf}-\\x{4ec0}\\x{4edf}\\x{4ee8}\\x{4f0d}\\x{4f70}\\x{5104}\\x{5146}\\x{5169}\\x{516b}"             \
    "\\x{516d}\\x{5341}\\x{5343}-\\x{5345}\\x{534c}\\x{53c1}-\\x{53c4}\\x{56db}\\x{58f1}\\x{58f9}"                     \
    "\\x{5e7a}\\x{5efe}-\\x{5eff}\\x{5f0c}-\\x{5f0e}\\x{5f10}\\x{62fe}\\x{634c}\\x{67d2}\\x{6f06}"                     \
    "\\x{7396}\\x{767e}\\x{8086}\\x{842c}\\x{8cae}\\x{8cb3}\\x{8d30}\\x{9621}\\x{9646}\\x{964c}\\x{9678}"              \
    "\\x{96f6}\\x{f96b}\\x{f973}\\x{f978}\\x{f9b2}\\x{f9d1}\\x{f9d3}\\x{f9fd}\\x{20001}\\x{20064}"                     \
    "\\x{200e2}\\x{20121}\\x{2092a}\\x{20983}\\x{2098c}\\x{2099c}\\x{20aea}\\x{20afd}\\x{20b19}\\x{22390}"             \
    "\\x{22998}\\x{23b1b}\\x{2626d}\\x{2f890}"

static const char *const patterns[] = {
    [TERN_JINJA_ALPHA] = "\\A\\p{L}++\\z",
    [TERN_JINJA_ALNUM] = "\\A[\\p{L}\\p{N}]++\\z",
    [TERN_JINJA_DECIMAL] = "\\A\\p{Nd}++\\z",
    [TERN_JINJA_DIGIT] = "\\A[\\p{Nd}" MORE_DIGITS "]++\\z",
    [TERN_JINJA_NUMERIC] = "\\A[\\p{N}" MORE_NUMBERS "]++\\z",
};

tern_status tern_jinja__all_are(tern_jinja_render *r, tern_jinja_str s, tern_jinja_property property, bool *out)
{
    int why;
    PCRE2_SIZE at;
    const char *pattern = patterns[property];
    TERN_TRY(tern_jinja__charge(&r->pool, 8 + s.n / 16));
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), PCRE2_UTF, &why, &at, NULL);
    pcre2_match_data *found = code ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
    /* Bytes that are not UTF-8 do not match. */
    if (found) *out = pcre2_match(code, (PCRE2_SPTR)s.data, s.n, 0, 0, found, NULL) > 0;
    const bool made = found != NULL;
    pcre2_match_data_free(found);
    pcre2_code_free(code);
    return made ? TERN_OK : tern_jinja__fail(&r->pool, TERN_OUT_OF_MEMORY, "out of memory for a pattern");
}

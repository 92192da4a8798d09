/* The filters of chat templates that are not in filter.c, for its table. */
#ifndef TERN_TEXT_JINJA_FILTERS_H
#define TERN_TEXT_JINJA_FILTERS_H

#include "text/jinja/render.h"

#define TERN_JINJA_FILTER(name)                                                                                        \
    tern_status tern_jinja__filter_##name(tern_jinja_render *r, const tern_jinja_value *self,                          \
                                          const tern_jinja_value *const *arg, tern_jinja_value *out)
TERN_JINJA_FILTER(first);
TERN_JINJA_FILTER(items);
TERN_JINJA_FILTER(join);
TERN_JINJA_FILTER(last);
TERN_JINJA_FILTER(list);
TERN_JINJA_FILTER(map);
TERN_JINJA_FILTER(reject);
TERN_JINJA_FILTER(rejectattr);
TERN_JINJA_FILTER(reverse);
TERN_JINJA_FILTER(select);
TERN_JINJA_FILTER(selectattr);
TERN_JINJA_FILTER(sort);
TERN_JINJA_FILTER(tojson);
TERN_JINJA_FILTER(unique);
#undef TERN_JINJA_FILTER

#endif

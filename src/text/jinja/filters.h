/* The filters of chat templates that are not in filter.c, for its table. */
#ifndef TERN_TEXT_JINJA_FILTERS_H
#define TERN_TEXT_JINJA_FILTERS_H

#include "text/jinja/render.h"

#define TERN_JINJA_FILTER(name)                                                                                        \
    tern_status tern_jinja__filter_##name(tern_jinja_render *r, const tern_jinja_value *self,                          \
                                          const tern_jinja_value *const *arg, tern_jinja_value *out)
TERN_JINJA_FILTER(batch);
TERN_JINJA_FILTER(dictsort);
TERN_JINJA_FILTER(first);
TERN_JINJA_FILTER(groupby);
TERN_JINJA_FILTER(items);
TERN_JINJA_FILTER(join);
TERN_JINJA_FILTER(last);
TERN_JINJA_FILTER(list);
TERN_JINJA_FILTER(max);
TERN_JINJA_FILTER(min);
TERN_JINJA_FILTER(reverse);
TERN_JINJA_FILTER(slice);
TERN_JINJA_FILTER(sort);
TERN_JINJA_FILTER(sum);
TERN_JINJA_FILTER(tojson);
TERN_JINJA_FILTER(unique);
#undef TERN_JINJA_FILTER

#define TERN_JINJA_OPEN_FILTER(name)                                                                                   \
    tern_status tern_jinja__filter_##name(tern_jinja_render *r, const tern_jinja_value *self,                          \
                                          const tern_jinja_args *args, tern_jinja_value *out)
TERN_JINJA_OPEN_FILTER(map);
TERN_JINJA_OPEN_FILTER(reject);
TERN_JINJA_OPEN_FILTER(rejectattr);
TERN_JINJA_OPEN_FILTER(select);
TERN_JINJA_OPEN_FILTER(selectattr);
#undef TERN_JINJA_OPEN_FILTER

/* An empty list with room for as many items as self has. */
tern_status tern_jinja__open_list(tern_jinja_render *r, const tern_jinja_value *self, const tern_jinja_list **items,
                                  tern_jinja_value *out, tern_jinja_list **list);
/* The list of one attribute of each item; `absent` (or NULL) stands for what is undefined. */
tern_status tern_jinja__pluck(tern_jinja_render *r, const tern_jinja_value *self, const tern_jinja_value *path,
                              const tern_jinja_value *absent, tern_jinja_value *out);
/* Makes a list a generator of its items. */
tern_status tern_jinja__to_generator(tern_jinja_render *r, tern_jinja_value *list);

#endif

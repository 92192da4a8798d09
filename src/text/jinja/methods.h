/* The methods of strings, for the tables of method.c. */
#ifndef TERN_TEXT_JINJA_METHODS_H
#define TERN_TEXT_JINJA_METHODS_H

#include "text/jinja/render.h"

/* Ends with a row without a name. */
extern const tern_jinja_filter tern_jinja__string_methods[];

#endif

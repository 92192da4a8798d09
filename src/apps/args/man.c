/* Pages for man(1), from the tables of flags. */
#include "apps/args/args.h"

/* A text as mdoc has it: a backslash is doubled, a dot or quote that begins a line is none of roff's. */
static void print_text(const char *text, FILE *out)
{
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\') fputs("\\e", out);
        else if (*text == '-') fputs("\\-", out);
        else fputc(*text, out);
        if (*text == '\n' && (text[1] == '.' || text[1] == '\'')) fputs("\\&", out);
    }
}

static void print_flag(const tern_flag *f, const tern_options *defaults, FILE *out)
{
    tern_flag_value value;
    fputs(".It ", out);
    if (f->letter) fprintf(out, "Fl %c , ", f->letter);
    fprintf(out, "Fl \\-%s", f->name);
    if (f->metavar) fprintf(out, " Ar %s", f->metavar);
    fputc('\n', out);
    print_text(f->help, out);
    tern_args_print_default(f, defaults, out);
    fputc('\n', out);
    if (!f->value_at) return;
    fputs(".Bl -tag -width rope_attention -compact\n", out);
    for (uint32_t i = 0; f->value_at(i, &value); i++) {
        fprintf(out, ".It %s\n", value.name);
        print_text(value.what, out);
        fputc('\n', out);
    }
    fputs(".El\n", out);
}

void tern_args_man(const tern_command *command, FILE *out)
{
    tern_options defaults = {0};
    if (command->defaults) command->defaults(&defaults);
    fprintf(out, ".\\\" Made by `tern help --man`.\n.Dd\n.Dt TERN-%s 1\n.Os\n.Sh NAME\n.Nm tern-%s\n.Nd ",
            command->name, command->name);
    print_text(command->summary, out);
    fprintf(out, "\n.Sh SYNOPSIS\n.Nm tern %s\n", command->name);
    print_text(command->usage ? command->usage : "", out);
    fputs("\n.Sh DESCRIPTION\n", out);
    print_text(command->detail ? command->detail : command->summary, out);
    for (const tern_flag_group *g = command->groups; g && g->flags; g++) {
        fprintf(out, "\n.Ss %s\n.Bl -tag -width Ds\n", g->title);
        for (const tern_flag *f = g->flags; f->name; f++) print_flag(f, &defaults, out);
        fputs(".El", out);
    }
    fputs("\n.Sh SEE ALSO\n.Xr tern 1\n", out);
}

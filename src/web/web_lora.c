/* Exports: adapters. */
#include "tern.h"
#include "web/web.h"

TERN_WEB tern_status tern_web_lora_load(tern_lora **lora, tern_engine *engine, const tern_lora_file *files, uint32_t n);
TERN_WEB tern_status tern_web_lora_describe(const tern_lora *lora);
TERN_WEB void tern_web_lora_close(tern_lora *lora);

/* files[n]: addresses of a name that ends with a zero byte and of the bytes, and how many; they may go afterwards. */
tern_status tern_web_lora_load(tern_lora **lora, tern_engine *engine, const tern_lora_file *files, uint32_t n)
{
    return tern_lora_load_memory(lora, engine, files, n, tern_web__error());
}

/* {rank, alpha, layers, parameters, bytes}. */
tern_status tern_web_lora_describe(const tern_lora *lora)
{
    tern_error *err = tern_web__error();
    tern_lora_info info;
    TERN_TRY(tern_lora_describe(lora, &info, err));
    return tern_web__answer(json_pack("{s:I, s:f, s:I, s:I, s:I}", "rank", (json_int_t)info.rank, "alpha",
                                      (double)info.alpha, "layers", (json_int_t)info.n_layers, "parameters",
                                      (json_int_t)info.parameters, "bytes", (json_int_t)info.bytes),
                            err);
}

/* No session may use it any more. */
void tern_web_lora_close(tern_lora *lora)
{
    tern_lora_close(lora);
}

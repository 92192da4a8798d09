/* A module for tests/base/test_module.c: with a mark of its own, TEST_MARK, or with what is
 * compiled beside it. */
__attribute__((visibility("default"))) int test_module_open(void);

#if defined(TEST_MARK)
extern const char tern_module_mark[];
__attribute__((visibility("default"))) const char tern_module_mark[] = TEST_MARK;
#endif

int test_module_open(void)
{
    return 42;
}

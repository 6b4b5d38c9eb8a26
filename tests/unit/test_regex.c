/* test_regex.c: patterns against whole texts. */
#include "runtime/regex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct row {
    const char *pattern, *yes, *no; /* texts with | between */
} row;

static const row rows[] = {
    {"", "", "a"},
    {"abc", "abc", "ab|abcd||xabc"},
    {"a|bc|", "a|bc|", "b|abc"},
    {"(a|b)*c", "c|ac|abbac", "abcb|a"},
    {"a+b?", "a|aab", "b|abb"},
    {"(ab){2}", "abab", "ab|ababab"},
    {"(ab){1,2}x", "abx|ababx", "x|abababx"},
    {"a{2,}", "aa|aaaa", "a"},
    {"a{0,2}b{0}c", "c|ac|aac", "aaac|abc"},
    {"(a{1,2}){2}", "aa|aaa|aaaa", "a|aaaaa"},
    {"a{,2}", "a{,2}", "a|aa"},
    {"(a+)*b", "b|aaab", "a"},
    {"(a*)*", "|aaa", "b"},
    {"a*?b+?", "b|aabb", "a"},
    {"[a-c]x[^a-c]", "axd|bx9", "dxd|axa"},
    {"[]a]+[^]]", "]ax", "a]"},
    {"[\\d.-]+", "1.2-3", "a"},
    {"[[:alpha:]_]+[[:^digit:]]", "ab_x", "ab1"},
    {"\\d\\D\\w\\W\\s\\S", "1a_- x", "aaaaaa"},
    {"\\x41\\x{e9}\\t\\.", "A\xc3\xa9\t.", "A\xc3\xa9\tx"},
    {"\\Qa.b*\\E+", "a.b*|a.b**", "aXb"},
    {"(?:a)(?P<n>b)(?<m>c)", "abc", "ab"},
    {"^a$|\\Ab\\z", "a|b", "ab"},
    {"a\\b\\.b", "a.b", "ab"},
    {"a\\Bb", "ab", "a.b"},
    {"..", "\xc3\xa9\xe2\x82\xac|ab", "a|\xc3\xa9"},
    {"a.c", "abc", "a\nc"},
    {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", "e"},
    {"(?i)ab", "ab|AB|aB", "a|b"},
    {"(?i:a)b", "ab|Ab", "aB|AB"},
    {"(a(?i)b|c)d", "abd|aBd|Cd", "ABd|aBD"},
    {"(?i)a(?-i)b", "ab|Ab", "aB"},
    {"(?i)[a-c]x[^d-f]", "aXz|BxA", "axD|dxa"},
    {"(?i)k\xc3\xa9", "K\xc3\x89|\xe2\x84\xaa\xc3\xa9", "ke"},
    {"(?i)\\QaB\\E", "Ab", "a"},
    {"(?s)a.c", "a\nc|abc", "ac"},
    {"(?s:.)(?-s:.)", "\na", "a\n"},
    {"(?m)a$\n^b", "a\nb", "ab"},
    {"(?U)a*?(?is)", "|aa", "b"},
    {"www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com", "www.bbc.co.uk"},
};

static void check(const row *r, const char *texts, bool wanted)
{
    const char *error = "";
    tw_regex *re = tw_regex_compile(r->pattern, &error);
    if (!re)
        fail_msg("%s: %s", r->pattern, error);
    for (const char *at = texts;; at++) {
        char text[64] = "";
        bool failed;
        memcpy(text, at, strcspn(at, "|"));
        if (tw_regex_matches(re, text, &failed) != wanted || failed)
            fail_msg("/%s/ and '%s'", r->pattern, text);
        at += strcspn(at, "|");
        if (!*at)
            break;
    }
    tw_regex_free(re);
}

static void patterns(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(&rows[i], rows[i].yes, true);
        check(&rows[i], rows[i].no, false);
    }
}

static void wrong_patterns(void **state)
{
    (void)state;
    static const char *const wrong[] = {"(",
                                        ")",
                                        "[a",
                                        "*",
                                        "a{3,1}",
                                        "a{2000}",
                                        "\\",
                                        "[z-a]",
                                        "(?x)a",
                                        "\\p{L}",
                                        "[[:x:]]",
                                        "\\x4",
                                        "(?<a",
                                        "(?i-)a",
                                        "(?i)\xe1\x82\xa0",
                                        "[\\",
                                        "((((a{1000}){1000}){1000}){1000})"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *error = NULL;
        if (tw_regex_compile(wrong[i], &error) || !error)
            fail_msg("/%s/ is taken", wrong[i]);
    }
}

/* What takes others exponential time. */
static void hard_pattern(void **state)
{
    (void)state;
    char text[2001];
    const char *error;
    bool failed;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    tw_regex *re = tw_regex_compile("(a*)*(a|a)*(a+a+)+b", &error);
    assert_non_null(re);
    assert_false(tw_regex_matches(re, text, &failed));
    assert_false(failed);
    text[sizeof text - 2] = 'b';
    assert_true(tw_regex_matches(re, text, &failed));
    tw_regex_free(re);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test(wrong_patterns),
        cmocka_unit_test(hard_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
